from pyspark.sql import functions as F

from sqb import model


@model(kind="merge", unique_key="letter")
def loud(ctx):
    """By a function of Python's own, over a view."""
    twice = F.udf(lambda text: text * 2)
    return ctx.ref("seen").groupBy("letter").agg(F.sum("amount").alias("n")).withColumn("name", twice("letter"))
