"""Commands that build: plans, builds, unit tests."""
