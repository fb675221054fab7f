from pathlib import Path

from sqb import loader


@loader(source="raw.events", mode="upsert", key="id")
def feed(ctx):
    rows = [tuple(map(int, line.split())) for line in Path("events.txt").read_text().splitlines()]
    ctx.write(ctx.spark.createDataFrame(rows, "id INT, v INT").coalesce(1))
