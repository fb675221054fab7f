"""Selectors: the parts of a project that people name on the command line, and in `selectors.yml`."""
