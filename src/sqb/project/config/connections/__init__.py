"""How to reach a catalog, a warehouse and a Spark."""
