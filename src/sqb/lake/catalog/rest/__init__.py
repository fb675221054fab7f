"""Catalogs behind the Iceberg REST protocol."""
