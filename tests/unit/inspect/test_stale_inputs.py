"""What a comparison says of the inputs of a model that a build would make anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sqb.inspect import diff
from sqb.names import Relation
from sqb.plan.model import Plan, PlannedNode, Reason, Root

EVERY, EDITED = Root("load", Reason.EVERY_BUILD), Root("s.up", Reason.QUERY_CHANGED)


def list_notes(monkeypatch: pytest.MonkeyPatch, kind: str = "table", **fields: Any) -> list[str]:
    fields = {"action": "run", "run_type": "full", "reason": Reason.UPSTREAM_CHANGED, **fields}
    planned = PlannedNode("s.up", "model", kind, Relation("s", "up"), **fields)
    monkeypatch.setattr(diff, "list_inputs", lambda node, project: (SimpleNamespace(name="s.up"),))
    workspace, plan = SimpleNamespace(project=None), SimpleNamespace(nodes=(planned,))
    read: Plan = plan  # type: ignore[assignment]
    return diff._list_stale_inputs(workspace, None, read)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "noted"),
    [
        ({"root": (EDITED,)}, True),
        ({"root": (EVERY, EDITED)}, True),
        ({"root": ()}, True),
        ({"root": (EVERY,)}, False),
        ({"root": (EDITED,), "run_type": "check"}, False),
        ({"root": (EDITED,), "action": "skip"}, False),
        ({"root": (EDITED,), "kind": "view"}, False),
    ],
)
def test_a_loader_above_makes_nothing_out_of_date_by_itself(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], noted: bool
) -> None:
    expected = ["s.up, which it reads, is out of date: its present rows are read"] if noted else []
    assert list_notes(monkeypatch, **fields) == expected
