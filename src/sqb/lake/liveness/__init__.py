"""Which runs are alive: by locks on files, sessions of PostgreSQL, or objects that are written again and again."""
