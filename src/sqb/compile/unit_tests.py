"""Unit tests linked to the project: what the names in a test mean, and the hash of what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqb import identity
from sqb.compile.model import Node, Project, UnitTest
from sqb.errors.base import Errors
from sqb.errors.project import BadValue, DuplicateKey, UnknownReference
from sqb.names import At, suggest_nearest
from sqb.project.unit_tests import Table, WrittenTest
from sqb.sql.text.table_names import find_top_level_ctes

# A model with other variables; None when it is reported as wrong.
Variant = Callable[[WrittenTest, Node], Node | None]


def link_tests(
    written: Iterable[WrittenTest], project: Project, disabled: Iterable[str], variant: Variant, errors: Errors
) -> tuple[UnitTest, ...]:
    """The tests of models that are switched on; whatever names something that is not there is reported."""
    off = {name.lower() for name in disabled}
    off |= {name.rpartition(".")[2] for name in off}
    tests = []
    for test in written:
        model = _find_model(test, project, off, errors)
        if model is None:
            continue
        other = variant(test, model) if test.vars else None
        if other is not None or not test.vars:
            tests.append(_link_test(test, other or model, other, errors))
    return tuple(tests)


def _find_model(test: WrittenTest, project: Project, off: set[str], errors: Errors) -> Node | None:
    folded_name = test.model.lower()
    fits = [n for n in project if folded_name in (n.name.lower(), str(n.relation).lower())]
    fits = fits or [n for n in project if n.name.lower().rpartition(".")[2] == folded_name]
    models = [n for n in fits if n.type == "model"]
    if len(models) == 1 and models[0].python:
        message = f"{models[0].name} is a Python model ({models[0].file}), and unit tests are for models in SQL"
        hint: str | None = (
            "test what its function calls with a testing library, or its rows with `constraints` and `audits`"
        )
        errors.add(BadValue(message, at=_locate(test.model_at, test.model), hint=hint))
        return None
    if len(models) == 1:
        return models[0]
    if folded_name in off and not fits:
        return None
    names = [name for n in project if n.type == "model" for name in (n.name, n.name.rpartition(".")[2])]
    if models:
        message = f'"{test.model}" could be {", ".join(sorted(n.name for n in models))}'
        hint = f"write the one that you mean, for instance {min(n.name for n in models)}"
    elif fits:
        message, hint = f'"{test.model}" is a seed: only models have something to test', None
    else:
        message, hint = f'no model is called "{test.model}"', suggest_nearest(test.model, names)
    errors.add(UnknownReference(message, at=_locate(test.model_at, test.model), hint=hint))
    return None


def _locate(at: At, name: str) -> At:
    return At(at.file, at.line, at.column, max(at.length, len(name)))


def _link_test(test: WrittenTest, node: Node, variant: Node | None, errors: Errors) -> UnitTest:
    inputs: dict[str, Any] = {}
    for table in test.given:
        name = _resolve_input(table, node, errors)
        if name in inputs:
            message = f"the rows of {name} are given twice"
            errors.add(DuplicateKey(message, at=table.at, hint="it may be called by two names, but is one table"))
        elif name is not None:
            inputs[name] = table.rows.to_data()
    ctes = _resolve_ctes(test, node, errors)
    for name in (name for name, slot in zip(node.reads, node.slots, strict=True) if slot.is_pinned):
        message = f"{node.name} reads {name} at a fixed version, for which a test cannot give rows"
        errors.add(BadValue(message, at=test.model_at, hint="move that part of the query to a model of its own"))
    says = {
        "given": inputs,
        "expect": test.expect.to_data() if test.expect is not None else None,
        "ctes": ctes,
        "now": test.now,
        "ordered": test.ordered,
    }
    return UnitTest(
        name=test.name,
        model=node.name,
        at=test.at,
        hash=identity.digest("test", node.name, json.dumps(_strip_places(says), sort_keys=True)),
        local_hash=node.local_hash,
        reads=tuple(dict.fromkeys(node.reads)),
        body=json.dumps(says),
        variant=variant,
    )


def _resolve_input(table: Table, node: Node, errors: Errors) -> str | None:
    """The node or external that a name in `given` means: as the query calls it, or by its own name."""
    folded_name = table.name.lower()
    names: dict[str, set[str]] = {}
    for name, slot in zip(node.reads, node.slots, strict=True):
        for name_in_query in (slot.name, name):
            names.setdefault(name_in_query.lower(), set()).add(name)
    short: dict[str, set[str]] = {}
    for name_in_query, target in names.items():
        short.setdefault(name_in_query.rpartition(".")[2], set()).update(target)
    fits = names.get(folded_name) or short.get(folded_name) or set()
    if len(fits) == 1:
        return next(iter(fits))
    if fits:
        message = f'"{table.name}" could be {", ".join(sorted(fits))}'
        hint: str | None = f"write the one that you mean, for instance {min(fits)}"
    else:
        message = f'{node.name} does not read "{table.name}"'
        reads = sorted(set(node.reads))
        hint = suggest_nearest(table.name, [*names, *short])
        hint = hint or (f"it reads {', '.join(reads)}" if reads else "it reads no table at all")
    errors.add(UnknownReference(message, at=table.at, hint=hint))
    return None


def _resolve_ctes(test: WrittenTest, node: Node, errors: Errors) -> dict[str, Any]:
    if not test.expect_ctes:
        return {}
    names = {name.lower(): name for name in find_top_level_ctes(node.sql).names}
    ctes: dict[str, Any] = {}
    for table in test.expect_ctes:
        if table.name.lower() in names:
            ctes[names[table.name.lower()]] = table.rows.to_data()
            continue
        hint = suggest_nearest(table.name, names.values()) or (
            f"its CTEs are {', '.join(names.values())}" if names else "it has no WITH at its beginning"
        )
        errors.add(UnknownReference(f'{node.name} has no CTE called "{table.name}"', at=table.at, hint=hint))
    return ctes


def _strip_places(says: Mapping[str, Any]) -> dict[str, Any]:
    """What a test says, however its file is laid out."""

    def strip_rows(rows: Any) -> Any:
        if rows is None:
            return None
        columns, types, cells, _places, guessed = rows
        return [columns, types, cells, guessed]

    return {
        **says,
        "given": {name: strip_rows(rows) for name, rows in says["given"].items()},
        "expect": strip_rows(says["expect"]),
        "ctes": {name: strip_rows(rows) for name, rows in says["ctes"].items()},
    }
