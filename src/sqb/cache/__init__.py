"""What is remembered between runs in `.sqb/cache`: how values become text, and how text becomes files."""
