"""The project's SQL functions: bodies, calls, and inlining."""
