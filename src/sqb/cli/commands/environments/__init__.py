"""Commands about virtual environments and their database."""
