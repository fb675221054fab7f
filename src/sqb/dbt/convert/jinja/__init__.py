"""The part of Jinja that dbt projects are written in: parsed, and evaluated as far as files alone say what it gives."""
