"""SQL: the only importer of sqlglot."""
