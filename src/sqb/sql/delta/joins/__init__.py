"""How a query joins its tables, and which of them only add columns."""
