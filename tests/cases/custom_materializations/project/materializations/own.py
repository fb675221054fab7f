from _made import made

from sqb import materialization


@materialization("kept_log")
def kept_log(ctx):
    """A table that is made once, and added to whenever what it reads has changed."""
    if ctx.first_run or ctx.full_refresh:
        ctx.execute(made(ctx.relation_name, ctx.sql))
        return ctx.written(rows=ctx.query(f"SELECT * FROM {ctx.relation_name}").count())
    new = f"SELECT * FROM ({ctx.sql}) EXCEPT SELECT * FROM {ctx.relation_name}"
    count = ctx.query(new).count()
    if not count:
        return ctx.unchanged()
    ctx.execute(f"INSERT INTO {ctx.relation_name} {new}")
    return ctx.written(rows=count)


@materialization("first_rows")
def first_rows(ctx):
    """The first rows of the query, which sqb publishes."""
    return ctx.ref("others").orderBy("id").limit(ctx.config["most"])
