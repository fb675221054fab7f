"""Iceberg metadata as plain JSON, for planning without pyiceberg."""
