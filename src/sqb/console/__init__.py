"""What people and programs see: lines, live progress, JSON. Nothing here decides anything."""
