"""Columns and types of queries without Spark: what each query gives, and what is surely wrong in it."""
