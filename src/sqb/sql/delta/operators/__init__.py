"""A query as operators, and how they are read from its skeleton."""
