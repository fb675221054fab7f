"""Python nodes of the compiled project."""
