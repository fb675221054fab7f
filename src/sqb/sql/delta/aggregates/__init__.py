"""Blocks that group: how they are read, and which figures are stored of their groups."""
