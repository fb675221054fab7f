"""Python nodes in child processes: tasks, assets, checks, loaders and models."""
