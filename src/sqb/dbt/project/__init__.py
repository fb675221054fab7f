"""A dbt project as its files and its manifest say: what is in it, and what makes a node the same node."""
