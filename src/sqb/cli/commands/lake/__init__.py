"""Commands that keep the lake in order."""
