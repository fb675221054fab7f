"""The project in a browser: one JSON document of all that is known, and static pages made from it."""
