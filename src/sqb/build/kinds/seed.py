"""Seeds: CSV files of the project, loaded without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.publish import open_stage, publish_or_confirm
from sqb.build.node.unchanged_columns import encode_unchanged_columns, list_retained_columns
from sqb.errors.base import Errors
from sqb.errors.build import BuildError
from sqb.lake.port import Column
from sqb.project.seeds import load_seed, read_columns
from sqb.project.values import Seed
from sqb.types.spark_json import to_json_type

_MASK = (1 << 128) - 1


def build_seed(context: NodeContext) -> NodeOutcome:
    """Load the file's rows into a stage, and make that the table."""
    seed = _load_planned_seed(context)
    columns = read_columns(context.root, seed)
    shape = context.build_shape(tuple(Column(c.name, to_json_type(c.type)) for c in seed.columns))

    with open_stage(context, shape) as stage:
        context.lake.fill(stage, columns)
        context.announce("written", context.node.name)
        rows = len(columns[0]) if columns else 0
        return publish_or_confirm(
            context,
            stage,
            rows,
            compute_content(columns),
            unchanged=_describe_unchanged_columns(context, seed, columns),
        )


def _describe_unchanged_columns(context: NodeContext, seed: Seed, columns: Sequence[Sequence[Any]]) -> str:
    """What the commit may say of the content before it, when the file only got more columns."""
    before = list_retained_columns(context, [c.name for c in seed.columns])
    if before is None or context.current is None:
        return ""
    values = {c.name.lower(): column for c, column in zip(seed.columns, columns, strict=True)}
    same = compute_content([values[name.lower()] for name in before]) == context.current.identity.content
    return encode_unchanged_columns(context.current, [before]) if same else ""


def _load_planned_seed(context: NodeContext) -> Seed:
    """The seed, provided that its file is still the one that the plan was made for."""
    errors = Errors()
    seed = load_seed(context.root, context.root / context.node.file, errors)
    if seed is None or seed.content_hash != context.node.query_hash:
        raise BuildError(
            f"{context.node.file} changed while the build was running", hint="run the build again to load the new rows"
        )
    return seed


def compute_content(columns: Sequence[Sequence[Any]]) -> str:
    """A checksum of rows as a multiset: their order does not matter, how often each is there does."""
    total = count = 0
    for row in zip(*columns, strict=True):
        total = (total + int.from_bytes(hashlib.sha256(repr(row).encode()).digest()[:16])) & _MASK
        count += 1
    return f"s:{count}:{total:032x}"
