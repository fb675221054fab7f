from report import title

from sqb import task


@task(depends_on=["plausible", "marts.revenue"])
def tell(ctx):
    rows = ctx.query(f"SELECT amount FROM {ctx.relation('revenue')} ORDER BY amount").collect()
    return {"title": title(), "amounts": [row.amount for row in rows]}
