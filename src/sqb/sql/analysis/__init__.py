"""Queries by their trees: references, the canonical form, columns read, lineage."""
