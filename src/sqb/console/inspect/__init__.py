"""What commands that only read have found, as text."""
