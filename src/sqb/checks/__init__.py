"""Checks: what a model's rows must be like, from the written call to what has to be asked of the data.

Nothing here reads files, knows Spark or runs a query. `catalogue` has one line per check.
"""
