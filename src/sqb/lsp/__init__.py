"""The editor server: what editors ask about a project while people type. Only `server.py` knows the protocol."""
