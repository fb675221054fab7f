"""Read-only questions about a project: diff, explain, lineage, query."""
