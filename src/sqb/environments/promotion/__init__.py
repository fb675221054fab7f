"""Promotion between environments and rollback to checkpoints."""
