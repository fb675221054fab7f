"""What to do: pure functions from the compiled project and what was observed to a Plan."""
