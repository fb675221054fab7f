"""Makes a project of sqb from a dbt project, from the texts of its files alone."""
