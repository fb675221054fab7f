"""The structure of a query: its blocks, sources and clauses, read from tokens and checked against a parser's tree."""
