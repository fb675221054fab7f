"""Rows that are kept in memory, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sqb.lake.arrow_types import arrow_type
from sqb.lake.port import ColumnState
from sqb.lake.row_types import type_that_stands


def batches_of(
    columns: Iterable[ColumnState], rows: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Some columns of rows."""
    values = dict(zip((c.name for c in columns), zip(*rows, strict=True), strict=False))
    kinds = {c.name: arrow_type(type_that_stands(c.type)) for c in columns}
    arrays = [pa.array(values.get(name, ()), kinds[name]) for name in names]
    yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, kinds[name]) for name in names]))
