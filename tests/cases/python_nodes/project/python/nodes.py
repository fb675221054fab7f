import json
from pathlib import Path

from sqb import check, loader


@loader(source="raw.orders")
def fetch(ctx):
    return json.loads(Path("orders.json").read_text())


@check(depends_on="marts.revenue")
def plausible(ctx):
    return ctx.ref("marts.revenue").where("amount < 0")
