"""What may be removed from a lake, decided from facts, and its removal."""
