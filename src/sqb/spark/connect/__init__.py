"""Spark Connect: the client, sessions on a server, and serving one."""
