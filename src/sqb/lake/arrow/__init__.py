"""Rows without Spark: written, cast, compared and summed up by Arrow."""
