"""sqb builds SQL pipelines on Spark and Iceberg, and runs only what changed."""

__version__ = "0.1.0"
