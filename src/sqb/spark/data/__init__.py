"""DataFrame code: changes, checksums, keys, histories, differences."""
