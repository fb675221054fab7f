from pyspark.sql import functions as F
from words import WORD

from sqb import model


@model(kind="merge", unique_key="customer", constraints=["not_null(customer)"])
def scores(ctx):
    """By a function of Python's own, over a view."""
    if ctx.vars["mood"] == "idle":
        ctx.skip(reason="not in the mood")
    if ctx.vars["mood"] == "bad":
        raise ValueError("no scores today")
    loud = F.udf(lambda text: f"{text.upper()}{WORD}")
    orders = ctx.ref("all_orders")
    return orders.groupBy("customer").agg(F.sum("amount").alias("score")).withColumn("name", loud("customer"))
