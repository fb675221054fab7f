"""Whatever stops a model, of whatever kind: its relation stays as it was to the last byte, and the next build is right.

Each kind goes through every way to fail, one after the other on one table, with somebody who reads at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sqb.lake.iceberg import IcebergLake
from sqb.names import Relation
from support.sandbox import Sandbox, SandboxMaker

KINDS = {
    "table": "-- @kind: table\n-- @refresh: incremental",
    "merge": "-- @kind: merge\n-- @unique_key: id\n-- @refresh: incremental",
    "tracked": "-- @kind: tracked\n-- @group_key: id\n-- @refresh: incremental",
    "append": "-- @kind: append\n-- @refresh: incremental",
    "scd2": "-- @kind: scd2\n-- @unique_key: id\n-- @refresh: incremental",
    "incremental": "-- @incremental: id\n-- @cursor_type: integer",
    "view": "-- @kind: view",
}
CHECKS = "-- @constraint: compare(v, >=, 0)\n-- @audit: max(v, <=, 100)\n"
QUERY = "SELECT id, v FROM raw.items"
TARGET = Relation("m", "items")


@dataclass
class Story:
    """One table, and somebody who looks at it all the time."""

    sandbox: Sandbox
    kind: str
    head: str

    def write(self, query: str = QUERY, checks: str = CHECKS) -> None:
        self.sandbox.write("models/m/items.sql", f"{self.head}\n{checks}{query}\n")

    def location(self) -> str:
        """Where the relation's metadata is: rows, columns, snapshot and identity are those of before if this is."""
        return self.sandbox.lake().list_pointers()[TARGET].location

    def rows(self) -> list[tuple[object, ...]]:
        """The rows, less the moments at which history was written."""
        listed = "* EXCEPT (valid_from, valid_to)" if self.kind == "scd2" else "*"
        return sorted(tuple(row) for row in self.sandbox.sql(f"SELECT {listed} FROM m.items"))

    def fails(self, code: str, during: Callable[[str], None] | None = None) -> str:
        """Build; the model fails and a reader sees at every step what was there before. Returns the error's words."""
        before, rows = self.location(), self.rows()

        def announce(step: str, node: str) -> None:
            if node == "m.items":
                assert self.location() == before, f"{step}: something was published"
                assert self.rows() == rows, f"{step}: a reader saw something"
                if during is not None:
                    during(step)

        result = self.sandbox.build(announce=announce)
        (node,) = result.nodes
        assert node.status == "failed" and node.error is not None
        assert node.error.code.startswith(code), str(node.error)
        assert self.location() == before and self.rows() == rows
        # A failed run must not make the next run skip.
        assert not self.sandbox.plan().nothing_to_do
        return str(node.error)

    def goes_on(self, *rows: tuple[object, ...]) -> None:
        """The next build ends as an undisturbed one would, and leaves nothing to do."""
        assert self.sandbox.build().ok
        assert self.rows() == sorted(rows)
        assert self.sandbox.stages() == []
        assert self.sandbox.plan().nothing_to_do


@pytest.fixture
def kind() -> str:
    return "table"


@pytest.fixture
def story(kind: str, new_sandbox: SandboxMaker, tmp_path: Path) -> Story:
    sandbox = new_sandbox(tmp_path / "project")
    # A small table would be written anew as a whole; here only the files that change are.
    sandbox.write("sqlbuild_project.toml", 'name = "sandbox"\n[incremental]\nsmall_rows = 0\n')
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    sandbox.sql("CREATE TABLE raw.items AS SELECT * FROM VALUES (1, 10), (2, 20) AS t(id, v)")
    made = Story(sandbox, kind, KINDS[kind])
    made.write()
    assert sandbox.build().ok
    return made


def current(kind: str, *rows: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Rows as a kind keeps them: a history says which are current."""
    return [(*row, True) for row in rows] if kind == "scd2" else list(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_every_failure_leaves_everything_as_it_was(story: Story) -> None:
    sandbox, kind = story.sandbox, story.kind
    good = [(1, 10), (2, 20)]
    if kind == "view":
        # A view shows what is beneath it at once; only what it is made of can be held back.
        story.write("SELECT id, v - 11 AS v FROM raw.items")
    else:
        sandbox.sql("INSERT INTO raw.items VALUES (3, -1)")
    words = story.fails("SQB-K")
    assert "compare(v, >=, 0)" in words

    if kind == "view":
        story.write("SELECT id, v + 100 AS v FROM raw.items")
    else:
        sandbox.sql("UPDATE raw.items SET v = 300 WHERE id = 3")
    assert "max(v, <=, 100)" in story.fails("SQB-K")

    # The same with another column: it must not be seen either.
    story.write("SELECT id, v + 100 AS v, 'new' AS extra FROM raw.items")
    assert "max(v, <=, 100)" in story.fails("SQB-K")
    assert "extra" not in " ".join(sandbox.columns("m.items"))

    if kind != "view":
        story.write("SELECT id, v DIV (id - 3) AS v FROM raw.items")
        assert "division by zero" in story.fails("SQB-B")
        sandbox.sql("UPDATE raw.items SET v = 30 WHERE id = 3")
        good.append((3, 30))
    story.write()
    story.goes_on(*current(kind, *good))


@pytest.mark.parametrize("kind", KINDS)
def test_cut_off_at_any_step(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, kind = story.sandbox, story.kind
    good = [(1, 10), (2, 20)]
    steps = ["before publish"] if kind == "view" else ["before stage", "staged", "written", "before publish"]
    for number, step in enumerate(steps, 3):
        if kind == "view":
            story.write("SELECT id, v FROM raw.items WHERE id < 100")
        else:
            sandbox.sql(f"INSERT INTO raw.items VALUES ({number}, {number})")
            good.append((number, number))
        with monkeypatch.context() as patched:
            # Somebody who is killed does not tidy up.
            patched.setattr(IcebergLake, "discard", lambda self, stage: None)
            story.fails("SQB", during=_cut_at(step))
        result = sandbox.build()
        assert result.ok and story.rows() == sorted(current(kind, *good))
    assert sandbox.plan().nothing_to_do


def _cut_at(wanted: str) -> Callable[[str], None]:
    def cut(step: str) -> None:
        if step == wanted:
            raise KeyboardInterrupt(step)

    return cut


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "view"])
def test_somebody_else_writes_it_meanwhile(story: Story) -> None:
    sandbox, kind = story.sandbox, story.kind
    sandbox.sql("INSERT INTO raw.items VALUES (3, 30)")
    foreign = "9, 90, now(), NULL, true" if kind == "scd2" else "9, 90"

    def announce(step: str, node: str) -> None:
        if step == "before publish":
            sandbox.sql(f"INSERT INTO m.items VALUES ({foreign})")

    result = sandbox.build(announce=announce)
    (node,) = result.nodes
    assert node.error is not None and node.error.code == "SQB-L007"
    # Nothing was overwritten.
    assert story.rows() == sorted(current(kind, (1, 10), (2, 20), (9, 90)))
    assert sandbox.stages() == []
    (planned,) = sandbox.plan().nodes
    assert planned.reason == "Changed outside sqb"


def test_rows_that_go_may_break_a_check_for_those_that_stay(story: Story) -> None:
    """A model that is compared with itself: nothing but a row that goes is news, and a row that stays is wrong then."""
    sandbox = story.sandbox
    story.write("SELECT id, v, id - 1 AS before FROM raw.items", "-- @constraint: references(before, m.items.id)\n")
    sandbox.sql("UPDATE raw.items SET v = NULL")
    assert "references(before, m.items.id)" in story.fails("SQB-K")
    story.write(
        "SELECT id, v, nullif(id - 1, 0) AS before FROM raw.items", "-- @audit: references(before, m.items.id)\n"
    )
    assert sandbox.build().ok
    sandbox.sql("INSERT INTO raw.items VALUES (3, 30)")
    assert sandbox.build().ok
    sandbox.sql("DELETE FROM raw.items WHERE id = 2")
    assert "references(before, m.items.id): 1 row violates it" in story.fails("SQB-K")
