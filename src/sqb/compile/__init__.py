"""From the files of a project to its nodes, with resolved references and hashes."""
