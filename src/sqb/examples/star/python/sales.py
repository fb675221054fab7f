"""Sales from the tills: here they are made up, day by day. Each day has its own seed, so it is the same every time."""

from datetime import date, timedelta
from random import Random

import pyarrow as pa

from sqb import loader

FIRST_DAY = date(2026, 1, 1)
COLUMNS = {
    "sale_id": "bigint",
    "sold_on": "date",
    "store_id": "int",
    "product_id": "int",
    "customer_id": "int",
    "quantity": "int",
    "discount": "int",
}


@loader(
    source="raw.sales",
    mode="append",
    columns=COLUMNS,
    tags="sales",
    description="Adds the days of sales that are not there yet",
)
def load_sales(ctx):
    done, wanted = ctx.last_result or 0, ctx.vars["days"]
    if wanted <= done:
        ctx.skip(reason=f"no new day after {FIRST_DAY + timedelta(days=done - 1)}")
    per_day = ctx.vars["sales_per_day"]
    rows = [row for day in range(done, wanted) for row in make_day(day, per_day)]
    ctx.write(pa.Table.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], names=list(COLUMNS)))
    return ctx.result(wanted)


def make_day(day, count):
    """The sales of one day: some stores, products and customers are busier than others."""
    random = Random(day)
    sold_on = FIRST_DAY + timedelta(days=day)
    for number in range(count):
        yield (
            day * 1_000_000 + number,
            sold_on,
            min(random.randint(1, 12), random.randint(1, 12)),
            min(random.randint(1, 48), random.randint(1, 48)),
            random.randint(1, 400) if random.random() < 0.8 else None,
            random.randint(1, 4),
            random.choice((0, 0, 0, 5, 10)),
        )
