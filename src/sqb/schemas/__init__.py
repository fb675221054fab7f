"""JSON Schemas of the settings, for editors; scripts/make_schemas.py writes them."""
