"""The project's functions: their definitions and their calls."""
