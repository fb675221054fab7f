"""dbt projects, of which only what changed is run."""
