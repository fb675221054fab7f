import json
from pathlib import Path

from sqb import asset


@asset(depends_on="tell")
def page(ctx):
    Path("page.txt").write_text(json.dumps(ctx.result_of("tell")))
