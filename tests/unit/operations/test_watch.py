"""When a round of `sqb watch` begins, and which tables came out of it with other rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sqb.errors.project import Unreadable
from sqb.operations.watch import ChangedTable, TableVersion, iter_saves, list_changed_tables
from unit.folders import write

Stamps = Mapping[str, tuple[int, int]]


def play(looks: list[Stamps | Exception]) -> tuple[Callable[[Path], Stamps], list[float]]:
    """What files look like, look by look; and how long is waited between them."""
    pauses: list[float] = []

    def read(root: Path) -> Stamps:
        look = looks.pop(0)
        if isinstance(look, Exception):
            raise look
        return look

    return read, pauses


def test_a_round_begins_when_files_have_come_to_rest(tmp_path: Path) -> None:
    write(tmp_path, {})
    one: Stamps = {"models/a.sql": (1, 1), "models/b.sql": (1, 1)}
    two: Stamps = {"models/a.sql": (2, 1), "models/b.sql": (1, 1)}
    three: Stamps = {"models/a.sql": (2, 1), "models/c.sql": (1, 1)}
    read, pauses = play([one, one, two, three, three])
    saves = iter_saves(tmp_path, pauses.append, read)
    assert next(saves) == ()
    assert next(saves) == ("models/a.sql", "models/b.sql", "models/c.sql")
    # Once while nothing happened, and twice until what happened was over.
    assert pauses == [0.3, 0.2, 0.2]


def test_a_folder_that_goes_away_at_this_moment_is_looked_at_again(tmp_path: Path) -> None:
    write(tmp_path, {})
    one: Stamps = {"models/a.sql": (1, 1)}
    two: Stamps = {"models/a.sql": (2, 1)}
    read, pauses = play([one, Unreadable("this folder cannot be read"), FileNotFoundError(), two, two])
    saves = iter_saves(tmp_path, pauses.append, read)
    assert [next(saves), next(saves)] == [(), ("models/a.sql",)]
    assert pauses == [0.3, 0.3, 0.2]


def test_real_files_are_seen(tmp_path: Path) -> None:
    write(tmp_path, {"models/a.sql": "SELECT 1"})
    edits = iter(["SELECT 22", "SELECT 22"])
    saves = iter_saves(tmp_path, lambda _: _edit(tmp_path / "models/a.sql", next(edits)))
    assert next(saves) == ()
    assert next(saves) == ("models/a.sql",)


def _edit(path: Path, text: str) -> None:
    if path.read_text() != text:
        path.write_text(text)


def test_tables_with_other_rows() -> None:
    first = TableVersion(1, (1,), "x", 2)
    compacted = TableVersion(3, (3, 1), "x", 2)
    rebuilt = TableVersion(4, (4,), "x", 2)
    other = TableVersion(5, (5,), "y", 3)
    before = {"a": first, "b": first, "c": first, "d": first, "gone": first}
    now = {"a": first, "b": compacted, "c": rebuilt, "d": other, "new": other}
    assert list_changed_tables(before, now) == (ChangedTable("d", first, other), ChangedTable("new", None, other))
