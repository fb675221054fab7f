"""The functions and operators of Spark: their arguments, and the types of their results."""
