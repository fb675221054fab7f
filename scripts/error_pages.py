"""Write what mistakes look like into the pages about errors, by making them: those that are noticed without Spark.

For each code there are the files that make the mistake: whole files, or a text of the example's file and its
replacement. `error_pages.py SQB-P001 …` writes the pages of these codes, without any all of them. Tests compare them.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from docs_output import DOCS, Run, Step, read_dialogue, run_in_shell

Change = str | bytes | tuple[str, str]

PROJECT = "sqlbuild_project.toml"
_PRODUCTS = "models/staging/stg_products.sql"
_FIRST_LINE = "-- @kind: view\n"

# In the project that `sqb init` makes.
SHOP: Mapping[str, Mapping[str, Change]] = {
    "SQB-C001": {},
    "SQB-C003": {},
    "SQB-C004": {},
    "SQB-C005": {},
    "SQB-P001": {PROJECT: 'name = "shop\n'},
    "SQB-P002": {_PRODUCTS: ("@description", "@descripton")},
    "SQB-P003": {PROJECT: ('schema = "{folder}"', 'schema = "{folders}"')},
    "SQB-P004": {PROJECT: ('name = "shop"\n', "")},
    "SQB-P005": {_PRODUCTS: (_FIRST_LINE, f"{_FIRST_LINE}-- @materialized: table\n")},
    "SQB-P006": {_PRODUCTS: (_FIRST_LINE, f"{_FIRST_LINE}-- @partitioned_by: category\n")},
    "SQB-P007": {_PRODUCTS: ("@tags: [staging]", "@tags: [staging")},
    "SQB-P008": {_PRODUCTS: ("@kind: view", "@kind: veiw")},
    "SQB-P009": {
        PROJECT: (
            "and the tables are in lake/.\n",
            'and …\n\n[connections.local]\ncatalog = {uri = "mysql://host/db"}\n',
        )
    },
    "SQB-P010": {"seeds/orders.yml": ("columns:", "columns")},
    "SQB-P011": {"seeds/products.csv": ("coffee,9.50,true", "coffee,9,50,true")},
    "SQB-P012": {"seeds/products.csv": ("coffee,9.50,true", "coffee,9.50 EUR,true")},
    "SQB-P013": {"models/staging/stg_umlauts.sql": b"SELECT 'K\xe4se' AS product\n"},
    "SQB-P014": {"models/staging/stg_payments.sql": ("@cents_to_euros", "@cents_to_euro")},
    "SQB-P015": {"models/marts/open_invoices.sql": ("@@payment_days) AS due_on", "@@payment_day) AS due_on")},
    "SQB-P018": {"models/staging/homes.sql": "SELECT ${env:HOME} AS home\n"},
    "SQB-P019": {
        "models/marts/revenue.sql": (
            "{{ config(materialized='incremental', unique_key='id') }}\n"
            "select id, amount\nfrom {{ ref('stg_orders') }}\nwhere amount > {{ var('limit') }}\n"
        )
    },
    "SQB-R001": {"models/staging/returns.sql": "-- @alias: stg_orders\nSELECT 1 AS a\n"},
    "SQB-R002": {"models/marts/customer_revenue.sql": ("FROM stg_customers AS c", "FROM stg_customer AS c")},
    "SQB-R004": {f"models/loop/{a}.sql": f"SELECT * FROM {b}\n" for a, b in ("ab", "bc", "ca")},
    "SQB-R005": {"models/staging/customers_eu.sql": "SELECT * FROM customers_eu WHERE country <> 'CH'\n"},
    "SQB-R006": {"models/staging/new orders.sql": "SELECT 1 AS a\n"},
    "SQB-R007": {
        "models/marts/orders.sql": "-- @renamed_from: sales\nSELECT 1 AS a\n",
        "models/marts/sales.sql": "SELECT 1 AS a\n",
    },
    "SQB-S001": {"models/staging/todo.sql": "-- @kind: table\n-- to be written\n"},
    "SQB-S002": {"models/staging/two.sql": "SELECT 1 AS a;\nSELECT 2 AS a;\n"},
    "SQB-S003": {"models/staging/fill.sql": "INSERT INTO staging.stg_orders SELECT * FROM orders\n"},
    "SQB-S004": {"models/staging/late.sql": "SELECT order_id\nFROM stg_orders\nWHERE (status = 'late'\n"},
    "SQB-V002": {},
    "SQB-Y001": {},
}
_ORDERS = "SELECT id AS order_id, customer, status, amount, rating FROM seeds.orders\n"
# In a project with the seeds below.
BARE: Mapping[str, Mapping[str, Change]] = {
    "SQB-D001": {
        "sources/raw.yml": "sources:\n  - name: raw.a\n  - name: raw.b\n  - name: raw.c\n\n# files\n"
        "  - name: prices\n    path: incoming/prices-*.csv\n",
        "models/staging/prices.sql": "SELECT * FROM prices\n",
    },
    "SQB-F001": {
        "functions/net.sql": "CREATE FUNCTION net(amount DECIMAL(10,2), rate DOUBLE DEFAULT 0.19)\n"
        "RETURNS DECIMAL(10,2)\nRETURN amont / (1 + rate)\n"
    },
    "SQB-F002": {
        "functions/net.sql": "CREATE FUNCTION net(amount DECIMAL(10,2), rate DOUBLE DEFAULT 0.19)\n"
        "RETURNS DECIMAL(10,2)\nRETURN amount / (1 + rate)\n",
        "models/orders.sql": "SELECT id, net() AS net FROM sales\n",
    },
    "SQB-F003": {
        "functions/gross.sql": "CREATE FUNCTION gross(x DOUBLE) RETURNS DOUBLE RETURN x + net(x)\n",
        "functions/net.sql": "CREATE FUNCTION net(x DOUBLE) RETURNS DOUBLE RETURN x - gross(x)\n",
    },
    "SQB-F004": {"functions/text.py": '"""Texts."""\n\n\ndef initials(name):\n    return name\n'},
    "SQB-K001": {"models/staging/orders.sql": f"-- @kind: table\n-- @constraint: nonull(order_id)\n{_ORDERS}"},
    "SQB-K002": {"models/staging/orders.sql": f"-- @kind: table\n-- @constraint: mean(amount, >, 0)\n{_ORDERS}"},
    "SQB-K003": {"models/staging/orders.sql": f"-- @kind: table\n-- @constraint: between(rating, 1)\n{_ORDERS}"},
    "SQB-K004": {"models/staging/orders.sql": f"-- @kind: table\n-- @constraint: compare(amuont, >=, 0)\n{_ORDERS}"},
    "SQB-K005": {"models/staging/orders.sql": f"-- @kind: table\n-- @audit: mean(status, >, 0)\n{_ORDERS}"},
    "SQB-K006": {"audits/too_old.sql": "DELETE FROM @@this\n"},
    "SQB-K007": {
        "models/marts/revenue.sql": f"-- @kind: table\n-- @audit: golden(golden/revenu.csv)\n{_ORDERS}",
        "golden/revenue.csv": "order_id\n1\n",
    },
    "SQB-N002": {"python/tasks/notify.py": "from sqb import task\n\n@task\ndef notify():\n    pass\n"},
    "SQB-N003": {
        "materializations/swap.py": "from sqb import materialization\n\n\n@materialization\ndef swap(ctx):\n    pass\n"
    },
    "SQB-N004": {
        "materializations/swap.py": 'from sqb import materialization\n\n\n@materialization("swap")\n'
        "def swap(ctx): ...\n",
        "models/marts/orders.sql": "-- @kind: custom\n-- @materialization: swop\nSELECT 1 AS a\n",
    },
    "SQB-P016": {
        "models/staging/stg_orders.sql": "-- @incremental: updated\nSELECT id, updated_at FROM seeds.orders\n",
        "models/staging/stg_products.sql": "SELECT id,\n  modified_at\nFROM products\n"
        "WHERE modified_at > __cursor_start()\n",
    },
    "SQB-S005": {
        "models/staging/stg_orders.sql": "MODEL (\n  post_hooks [UPDATE a SET x = 1, y = 2],\n);\nSELECT 1 AS a\n"
    },
    "SQB-S006": {
        "models/marts/revenue.sql": "SELECT customer,\n       sum(amuont) AS revenue\nFROM orders GROUP BY customer\n"
    },
    "SQB-S007": {
        "models/marts/revenue.sql": "SELECT id, c.name\nFROM orders AS o JOIN customers AS c ON o.customer_id = c.id\n"
    },
    "SQB-S008": {"models/staging/orders.sql": "SELECT id,\n       uper(status) AS status\nFROM seeds.orders\n"},
    "SQB-S009": {"models/staging/orders.sql": "SELECT id,\n       to_date(day, 'y', 'm') AS day\nFROM seeds.orders\n"},
    "SQB-S010": {
        "models/marts/orders.sql": "SELECT o.*, c.*\n"
        "FROM seeds.orders AS o JOIN customers AS c ON o.customer_id = c.id\n"
    },
    "SQB-S011": {"models/marts/people.sql": "SELECT id, name FROM customers\nUNION\nSELECT id FROM suppliers\n"},
    "SQB-S012": {
        "models/marts/revenue.sql": "SELECT customer, status, sum(amount) AS revenue\nFROM orders GROUP BY customer\n"
    },
    "SQB-S013": {"models/marts/revenue.sql": "SELECT customer\nFROM orders\nWHERE sum(amount) > 100\n"},
    "SQB-S014": {"models/marts/revenue.sql": "SELECT id\nFROM orders\nWHERE day = customer_id\n"},
    "SQB-Y002": {
        PROJECT: 'name = "shop"\n\n[dbt]\nproject_dir = "../shop_dbt"\n',
        "../shop_dbt/models/a.sql": "select 1 as a\n",
    },
}
SEEDS = {
    PROJECT: 'name = "shop"\n',
    "seeds/customers.csv": "id,name\n1,Ada\n",
    "seeds/orders.csv": (
        "id,customer,customer_id,status,amount,rating,day,updated_at\n"
        "1,ada,1,open,12.50,4,2026-01-01,2026-01-01T00:00:00\n"
    ),
    "seeds/products.csv": "id,modified_at\n1,2026-01-01T00:00:00\n",
    "seeds/sales.csv": "id\n1\n",
    "seeds/suppliers.csv": "id\n1\n",
}
_VIRTUAL = {
    PROJECT: 'name = "shop"\n\n[virtual]\nenabled = true\nunsuffixed_virtual_env = "prod"\nbaseline = "prod"\n',
    "seeds/orders.csv": "id\n1\n",
}
_TWO = (_VIRTUAL, "sqb build --virtual-env prod", "sqb build --virtual-env pr_123")
# Files and commands in turns, in an empty folder.
STEPS: Mapping[str, tuple[Mapping[str, Change] | str, ...]] = {
    "SQB-V001": (_VIRTUAL,),
    "SQB-V003": _TWO,
    "SQB-V004": (*_TWO, "sqb state detach pr_123"),
    "SQB-V013": ({**_VIRTUAL, PROJECT: 'name = "shop"\n'}, "sqb build", _VIRTUAL),
}
CODES = (*SHOP, *BARE, *STEPS)
_BLOCK = re.compile(r"^```\n(\$ sqb .*?)^```$", re.DOTALL | re.MULTILINE)


def get_page(code: str) -> Path:
    """The page about an error."""
    return DOCS / "errors" / f"{code}.md"


def read_step(code: str) -> Step:
    """The one command of a page, and what it prints."""
    (block,) = _BLOCK.findall(get_page(code).read_text(encoding="utf-8"))
    (step,) = read_dialogue(block)
    return step


def make_mistake(code: str, folder: Path, run: Run) -> Path:
    """Make a project below `folder` that has the mistake, and give its folder."""
    project = folder / "shop"
    steps = STEPS.get(code) or (({}, SHOP[code]) if code in SHOP else (SEEDS, BARE[code]))
    if code in SHOP:
        run("sqb init shop", folder)
    for step in steps:
        if isinstance(step, str):
            run(step, project)
            continue
        for path, change in step.items():
            _change_file(project / path, change)
    return project


def _change_file(file: Path, change: Change) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(change, tuple):
        text = file.read_text(encoding="utf-8")
        if change[0] not in text:
            raise ValueError(f"{file} has no {change[0]!r}")
        change = text.replace(*change, 1)
    file.write_bytes(change if isinstance(change, bytes) else change.encode())


def run_step(code: str, folder: Path, run: Run) -> Step:
    """The command of a page with what it prints now."""
    project = make_mistake(code, folder, run)
    command = read_step(code).command
    output = run(command, project).replace(f"{project}/", "")
    return Step(command, re.sub(r" +$", "", output, flags=re.MULTILINE))


def main() -> int:
    """Run the commands of pages and write what they print."""
    for code in sys.argv[1:] or CODES:
        with tempfile.TemporaryDirectory(prefix="sqb-errors-") as folder:
            block = f"```\n{run_step(code, Path(folder), run_in_shell)}```"
        page = get_page(code)
        text = page.read_text(encoding="utf-8")
        written = _BLOCK.search(text)
        assert written is not None
        page.write_text(text.replace(written[0], block), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
