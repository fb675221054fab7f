"""Column types: parsing, formatting, common types, casts; of Spark, Iceberg, Arrow and text."""
