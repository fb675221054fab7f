"""The only importer of pyspark."""
