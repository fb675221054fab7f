"""Files by their locations, in a folder or in an object store."""
