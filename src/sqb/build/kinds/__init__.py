"""One module a kind: how a node of that kind gets its rows to where readers see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqb.build.kinds.seed import build_seed
from sqb.build.kinds.table import build_table
from sqb.build.kinds.view import build_view
from sqb.build.turn import Outcome, Turn

KINDS: Mapping[str, Callable[[Turn], Outcome]] = {
    "seed": build_seed,
    "table": build_table,
    "view": build_view,
}
