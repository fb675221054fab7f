"""Commands about sqb itself."""
