"""SQL text: tokens, expansion, references, the canonical form. The only importer of sqlglot."""
