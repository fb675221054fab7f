"""Commands about virtual environments: their database, their checkpoints, promotion and rollback."""
