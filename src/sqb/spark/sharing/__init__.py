"""One JVM for several processes."""
