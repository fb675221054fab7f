from sqb import model


@model(kind="tracked", group_key="customer", columns={"customer": "who"})
def groups(ctx):
    return ctx.ref("orders").join(ctx.ref("people").select("id", "name"), "id")
