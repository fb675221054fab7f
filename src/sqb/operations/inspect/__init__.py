"""Commands that only look: at definitions, rows, lineage, sources and past runs."""
