"""`sqb dbt`: plans what dbt has to run, lets it run that, and builds the sqb models around it."""
