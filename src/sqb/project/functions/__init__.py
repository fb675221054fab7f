"""Functions of a project: SQL, Python, macros, table functions."""
