"""One node of a build: its context, its query at pinned versions, hooks, reuse, publishing."""
