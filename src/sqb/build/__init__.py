"""Doing it: a Plan is carried out node by node, and everything that happens is an event."""
