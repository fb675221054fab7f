"""An existing dbt project, of which only what changed is run."""
