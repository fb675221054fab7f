"""Everything that commits: stages, snapshots, schemas and views."""
