"""Table functions in the compiled project: sources that are read by calling them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqb import identity
from sqb.compile_functions import Functions
from sqb.compiled_sources import DeclaredSource, TableFunction
from sqb.errors import BadFunction, Errors
from sqb.names import At
from sqb.project.values import Source
from sqb.resolve import Draft, function_relation, slots_of, written_at
from sqb.sql.calls import FUNCTION


def with_table_functions(
    declared: Mapping[str, DeclaredSource], sources: Iterable[Source], functions: Functions, errors: Errors
) -> dict[str, DeclaredSource]:
    """The declared sources and the table functions; one name for both is reported."""
    found = dict(declared)
    named = {s.name.lower(): s for s in sources}
    for name, one in functions.tables.items():
        if name in named:
            message = f"the table function {name} is called like the source in {named[name].at.file}"
            errors.add(BadFunction(message, at=one.at, hint="rename one of the two"))
            continue
        made = TableFunction(one.file, one.symbol, one.columns, one.versioned)
        token = identity.digest("table function", one.returns)
        found[name] = DeclaredSource(name, function_relation(name), one.at, token=token, function=made)
    return found


def table_calls(draft: Draft) -> tuple[tuple[str, At], ...]:
    """The table functions that a model reads, each with the first place where it does."""
    found: dict[str, At] = {}
    for slot in slots_of(draft):
        if slot.kind == FUNCTION and slot.name.lower() not in found:
            found[slot.name.lower()] = written_at(draft, slot)
    return tuple(found.items())
