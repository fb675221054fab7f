"""A build in an environment: which versions it makes, and what the environment shows after it."""
