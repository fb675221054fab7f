"""Runs as OpenLineage events, through its own client: only loaded where events are to be sent."""
