"""What people wrote, as frozen values with the places where they wrote it."""
