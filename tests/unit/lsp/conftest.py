"""A small shop as an editor sees it; `|` in a text is where the cursor is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqb.lsp.snapshot import ProjectReader, Snapshot
from unit.folders import write

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n\n[vars]\ndays = 30\n\n[lint]\norder_by_without_limit = "off"\n',
    "seeds/orders.csv": "id,customer,amount,placed_on\n1,7,2.50,2026-01-01\n",
    "sources/raw.yml": "sources:\n  - name: raw.events\n    description: What happened\n",
    "macros/money.py": 'def euros(x: str) -> str:\n    """Cents as euros."""\n    return f"({x} / 100)"\n',
    "models/staging/stg_orders.sql": """\
MODEL (
  kind merge,
  unique_key order_id,
  description 'Orders, one by one',
  columns {amount: 'in euros'},
  constraints [not_null(amount)],
);

SELECT id AS order_id, customer, amount, placed_on FROM orders
""",
    "models/marts/totals.sql": """\
-- @kind: table
-- @tags: [finance]
-- @constraint: not_null(total)
WITH by_customer AS (
  SELECT customer, sum(o.amount) AS total, max(o.placed_on) AS last_on
  FROM stg_orders AS o
  GROUP BY customer
)
SELECT b.customer, b.total, upper('x') AS label FROM by_customer b WHERE b.total > 0 ORDER BY label
""",
    "models/marts/everything.sql": "SELECT * FROM totals\n",
}

Cursor = tuple[Snapshot, str, int]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


@pytest.fixture
def reader(root: Path) -> ProjectReader:
    return ProjectReader(root)


@pytest.fixture
def snapshot(reader: ProjectReader) -> Snapshot:
    return reader.read({})


@pytest.fixture
def point(reader: ProjectReader) -> Callable[[str, str], Cursor]:
    """The project with a text in the place of a file, and where the `|` in it was."""

    def point(path: str, text: str) -> Cursor:
        reader.read({})
        return reader.read({path: text.replace("|", "", 1)}), path, text.index("|")

    return point


@pytest.fixture
def find(snapshot: Snapshot) -> Callable[..., Cursor]:
    """A place of the project: behind the first letter of a text in a file, the n-th time that it is there."""

    def find(path: str, text: str, nth: int = 1) -> Cursor:
        offset = -1
        for _ in range(nth):
            offset = snapshot.read_text(path).index(text, offset + 1)
        return snapshot, path, offset + 1

    return find
