"""The built-in checks, one module a family."""
