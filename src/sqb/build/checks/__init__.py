"""Checks of a node: before anything runs, before its rows are published, and how failures are reported."""
