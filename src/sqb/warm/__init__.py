"""A Spark that is kept running between builds, and what builds need to know of it."""
