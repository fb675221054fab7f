"""The command line. Each command loads only what it needs."""
