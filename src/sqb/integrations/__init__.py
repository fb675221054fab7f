"""A project in the tools of others. Each module is for one of them, and the only one that imports it."""
