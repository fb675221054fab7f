"""Decorators note what they were given, whatever it is, and leave the function as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sqb
from sqb.decorators import Decoration, decorated, get_decoration

NODES = ("loader", "task", "asset", "check", "on_run_start", "on_run_end", "on_failure", "model")


@pytest.fixture(autouse=True)
def _forget() -> Any:
    remaining = list(decorated)
    yield
    decorated[:] = remaining


def function(ctx: Any) -> str:
    return f"called with {ctx}"


def fresh() -> Callable[[Any], str]:
    def of_its_own(ctx: Any) -> str:
        return function(ctx)

    return of_its_own


@pytest.mark.parametrize("kind", NODES)
def test_without_arguments_and_with_them(kind: str) -> None:
    decorator, bare, called = getattr(sqb, kind), fresh(), fresh()
    assert decorator(bare) is bare and bare(1) == "called with 1"
    assert decorator(name="x", tags=["a"])(called) is called
    first, second = get_decoration(bare), get_decoration(called)
    assert first is not None and (first.kind, first.options, first.name) == (kind, {}, None)
    assert second is not None and (second.kind, second.options, second.name) == (
        kind,
        {"name": "x", "tags": ["a"]},
        "x",
    )
    assert [f for _, f in decorated[-2:]] == [bare, called]


@pytest.mark.parametrize("kind", NODES)
def test_nothing_is_refused(kind: str) -> None:
    own = fresh()
    assert getattr(sqb, kind)("x", 2, nothing=function, retries="many")(own) is own
    given = get_decoration(own)
    assert given is not None
    assert (given.unnamed, given.options) == (("x", 2), {"nothing": function, "retries": "many"})


def test_a_loader_may_name_its_source_first() -> None:
    own = sqb.loader("raw.orders", mode="append")(fresh())
    given = get_decoration(own)
    assert given is not None and given.options == {"source": "raw.orders", "mode": "append"} and given.unnamed == ()


def test_the_place_is_that_of_the_decorator() -> None:
    @sqb.task(
        name="here",
    )
    def own(ctx: Any) -> None: ...

    given = get_decoration(own)
    assert given is not None
    assert given.file == __file__
    assert test_the_place_is_that_of_the_decorator.__code__.co_firstlineno + 1 == given.line


def test_two_decorators_are_both_noted() -> None:
    own = fresh()
    sqb.task(sqb.check(own))
    assert [(g.kind, f) for g, f in decorated[-2:]] == [("check", own), ("task", own)]


def test_what_takes_no_attributes_is_noted_all_the_same() -> None:
    assert sqb.task(len) is len
    assert decorated[-1][1] is len


def test_table_functions_and_materialisations() -> None:
    table = sqb.table_function(schema="id int", version=function)(fresh())
    given = get_decoration(table)
    assert given is not None
    assert given.options == {"schema": "id int", "version": function, "name": None}
    made = get_decoration(sqb.materialization("swap")(fresh()))
    assert made is not None and (made.kind, made.options) == ("materialization", {"name": "swap"})


def test_udf_is_as_it_was() -> None:
    own = fresh()
    assert sqb.udf(own) is own and sqb.udf(returns="int")(own) is own and get_decoration(own) is None


def test_a_value_of_somebody_else_is_no_node() -> None:
    assert get_decoration(function) is None and get_decoration(3) is None
    assert Decoration("task", {"name": 3}).name is None


def test_the_type_of_ctx() -> None:
    from sqb.python_runtime.context import Context

    assert sqb.Context is Context
    with pytest.raises(AttributeError, match="has no attribute 'Contex'"):
        sqb.Contex  # type: ignore[attr-defined]  # noqa: B018
