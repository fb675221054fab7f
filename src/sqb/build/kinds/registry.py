"""Which function builds a node of which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqb.build.kinds.append import build_append
from sqb.build.kinds.incremental import build_incremental
from sqb.build.kinds.merge import build_merge
from sqb.build.kinds.scd2 import build_scd2
from sqb.build.kinds.seed import build_seed
from sqb.build.kinds.table import build_table
from sqb.build.kinds.tracked import build_tracked
from sqb.build.kinds.view import build_view
from sqb.build.node.context import NodeContext, NodeOutcome

KINDS: Mapping[str, Callable[[NodeContext], NodeOutcome]] = {
    "seed": build_seed,
    "append": build_append,
    "incremental": build_incremental,
    "merge": build_merge,
    "scd2": build_scd2,
    "table": build_table,
    "tracked": build_tracked,
    "view": build_view,
}
