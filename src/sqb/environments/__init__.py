"""Virtual environments: sets of views on versions of tables that environments share."""
