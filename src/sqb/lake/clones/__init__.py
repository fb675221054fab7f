"""Tables that share the files of others."""
