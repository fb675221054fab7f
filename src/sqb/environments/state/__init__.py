"""The store of environments, on DuckDB and PostgreSQL, and its pairing with a lake."""
