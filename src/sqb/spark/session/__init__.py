"""Starting or reaching a Spark: Java, jars, settings, the class archive."""
