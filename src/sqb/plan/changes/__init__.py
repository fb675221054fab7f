"""What changed since a node was built: columns, rows, functions, settings of the session."""
