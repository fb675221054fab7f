"""Plans, events, results and errors as text for a terminal."""
