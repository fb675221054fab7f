"""What is true: the tables, views and state that stand in the catalog."""
