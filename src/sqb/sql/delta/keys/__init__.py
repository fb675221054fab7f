"""The keys that split a query: which survive every step of it, and which expressions can be one."""
