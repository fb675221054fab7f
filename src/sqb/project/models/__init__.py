"""The header of a model: its keys and their values."""
