"""Which relations there are: one module for each kind of catalog."""
