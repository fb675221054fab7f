"""Refresh or rebuild: how a node whose inputs changed is brought up to date, what that costs, and how it is shown."""
