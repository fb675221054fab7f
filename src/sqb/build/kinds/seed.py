"""Seeds: CSV files of the project, loaded without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqb.build.kept import columns_of_before, kept_in
from sqb.build.publish import publish_or_keep, stage_for
from sqb.build.turn import Outcome, Turn
from sqb.errors import BuildError, Errors
from sqb.lake.port import Column
from sqb.project.seeds import load_seed, read_columns
from sqb.project.values import Seed

_MASK = (1 << 128) - 1


def build_seed(turn: Turn) -> Outcome:
    """Load the file's rows into a stage, and make that the table."""
    seed = _as_planned(turn)
    columns = read_columns(turn.root, seed)
    shape = turn.shape(tuple(Column(c.name, c.type) for c in seed.columns))

    with stage_for(turn, shape) as stage:
        turn.lake.fill(stage, columns)
        turn.announce("written", turn.node.name)
        rows = len(columns[0]) if columns else 0
        return publish_or_keep(turn, stage, rows, content_of(columns), kept=_kept(turn, seed, columns))


def _kept(turn: Turn, seed: Seed, columns: Sequence[Sequence[Any]]) -> str:
    """What the commit may say of the content before it, when the file only got more columns."""
    before = columns_of_before(turn, [c.name for c in seed.columns])
    if before is None or turn.standing is None:
        return ""
    values = {c.name.lower(): column for c, column in zip(seed.columns, columns, strict=True)}
    same = content_of([values[name.lower()] for name in before]) == turn.standing.identity["sqb.content"]
    return kept_in(turn.standing, [before]) if same else ""


def _as_planned(turn: Turn) -> Seed:
    """The seed, provided that its file is still the one that the plan was made for."""
    errors = Errors()
    seed = load_seed(turn.root, turn.root / turn.node.file, errors)
    if seed is None or seed.content_hash != turn.node.query_hash:
        raise BuildError(
            f"{turn.node.file} changed while the build was running", hint="run the build again to load the new rows"
        )
    return seed


def content_of(columns: Sequence[Sequence[Any]]) -> str:
    """A checksum of rows as a multiset: their order does not matter, how often each is there does."""
    total = count = 0
    for row in zip(*columns, strict=True):
        total = (total + int.from_bytes(hashlib.sha256(repr(row).encode()).digest()[:16])) & _MASK
        count += 1
    return f"s:{count}:{total:032x}"
