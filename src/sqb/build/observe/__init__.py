"""What is true before a build: the lake, the sources and the files, observed once."""
