"""One module per command: it calls the operation, prints its result and returns the exit code."""
