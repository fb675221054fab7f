"""Every class that is cached comes back as it was, whatever is in its fields; whatever else a text holds is refused."""

from __future__ import annotations

import gc
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqb import workspace
from sqb.build.observe import sources
from sqb.cache import codec
from sqb.checks.node_checks import NodeChecks
from sqb.compile.model import Project
from sqb.dbt.model import DbtProject
from sqb.dbt.project.cache import SummaryOrigin
from sqb.lake.metadata import cache as lake_cache
from sqb.lake.port import Columns, TableState
from sqb.project.config.dbt_names import DbtName, DbtNames
from sqb.project.python import discovery_cache
from sqb.sql.analysis.lineage import Lineage
from sqb.sql.analysis.query import Query
from sqb.sql.delta.facts import Facts
from sqb.sql.delta.joins.model import Joins
from sqb.sql.functions.body import Body
from sqb.sql.text.calls import Calls
from support.examples import count_examples

# What is written to caches; the classes that these are made of are found by walking them.
ROOTS: tuple[Any, ...] = (
    Body,
    Calls,
    DbtNames,
    DbtProject,
    Facts,
    Joins,
    Lineage,
    Project,
    Query,
    SummaryOrigin,
    TableState,
    discovery_cache._Cached,
    lake_cache._Fingerprints,
    lake_cache._Freshness,
    sources._Answer,
    workspace._Origin,
)
HOSTILE = (
    "",
    "\0",
    "\n\r\t\x85\u2028",
    '"]],[[{"',
    "\\u0000\\",
    "é😀\U0010ffff",
    "\ud800 alone",
    "null",
    "end",
    "`'--/*",
)


def _walk(kind: Any) -> Iterator[Any]:
    """A type and all that it is made of."""
    yield kind
    hints = typing.get_type_hints(kind) if is_dataclass(kind) else {}
    inside = [hints[f.name] for f in fields(kind) if f.init] if is_dataclass(kind) else typing.get_args(kind)
    for hint in inside:
        yield from _walk(hint)


CLASSES = sorted({k for r in ROOTS for k in _walk(r) if is_dataclass(k)}, key=lambda k: (k.__module__, k.__name__))
# Fields that only take some of the values of their type.
EXACT: dict[Any, dict[str, Any]] = {DbtName: {"unique_id": Literal["model.shop.a", "seed.shop.b.v2"]}}


def _strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of the type in an annotation, with hostile texts wherever there is a text."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    texts = st.sampled_from(HOSTILE) | st.text(max_size=4)
    leaves: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        int: st.integers(),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        type(None): st.none(),
        Any: st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2),
        datetime: st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(fold=0)),
        Columns: st.builds(Columns, texts),
    }
    if hint in leaves:
        return leaves[hint]
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is types.UnionType or origin is typing.Union:
        return st.one_of(map(_strategy, arguments))
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(_strategy, arguments))
    if origin in (tuple, list, frozenset):
        return st.lists(_strategy(arguments[0]), max_size=2).map(origin)
    if origin in (Mapping, dict):
        return st.dictionaries(_strategy(arguments[0]), _strategy(arguments[1]), max_size=2)
    assert is_dataclass(hint), f"no values of the type {hint} are made here"
    return _build(hint)


def _build(kind: Any) -> st.SearchStrategy[Any]:
    hints = {**typing.get_type_hints(kind), **EXACT.get(kind, {})}
    return st.fixed_dictionaries({f.name: _strategy(hints[f.name]) for f in fields(kind) if f.init}).map(
        lambda values: kind(**values)
    )


def test_the_classes_are_found() -> None:
    assert len(CLASSES) > 40 and {NodeChecks, Query, TableState} < set(CLASSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda k: f"{k.__module__.removeprefix('sqb.')}.{k.__name__}")
def test_every_cached_class_comes_back(kind: Any) -> None:
    @settings(max_examples=count_examples(15), deadline=None, database=None)
    @given(_build(kind))
    def comes_back(value: Any) -> None:
        text = codec.encode(value)
        assert text.isascii() and "\n" not in text and "\t" not in text
        again = codec.decode(kind, text)
        assert again == value
        # `compare=False` hides a field from ==, and the text tells 1 from True and 1.0.
        assert all(getattr(again, f.name) == getattr(value, f.name) for f in fields(kind))
        assert codec.encode(again) == text

    comes_back()


@pytest.mark.parametrize("kind", CLASSES, ids=lambda k: f"{k.__module__.removeprefix('sqb.')}.{k.__name__}")
def test_a_text_of_other_fields_is_refused(kind: Any) -> None:
    count = len([f for f in fields(kind) if f.init])
    for wrong in ("", "[", "nul", "null", "{}", '"', "5", f"[{','.join(['null'] * (count + 1))}]", "[]", "[]],[[]"):
        with pytest.raises(codec.Undecodable):
            codec.decode(kind, wrong)


@dataclass(frozen=True, slots=True)
class _Leaf:
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Twig:
    text: str


@dataclass(frozen=True, slots=True)
class _Tree:
    one: _Leaf | _Twig
    many: tuple[str | _Leaf | _Twig, ...] = ()
    by_name: Mapping[str, tuple[_Leaf, ...]] = field(default_factory=dict)
    deep: tuple[tuple[tuple[int, _Leaf], ...], ...] = ()
    some: frozenset[str] = frozenset()
    child: _Tree | None = None
    derived: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "derived", self.one.text.upper())


def test_unions_containers_and_classes_within_themselves() -> None:
    leaf = _Leaf("a", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=30))))
    tree = _Tree(
        _Twig("_Leaf"),
        ("text", leaf, _Twig("b")),
        types.MappingProxyType({"x": (leaf,)}),
        (((1, leaf),), ()),
        frozenset({"b", "a"}),
    )
    tree = replace(tree, child=replace(tree, one=leaf))
    again = codec.decode(_Tree, codec.encode(tree))
    assert again.child == replace(tree, one=leaf, child=None) and replace(again, child=tree.child) == tree
    assert again.derived == "_LEAF" and again.child is not None and again.child.derived == "A"
    assert codec.encode(again) == codec.encode(tree)


def test_values_that_are_not_dataclasses() -> None:
    passed = {"dev": {"a": "1"}, "prod": {}}
    assert codec.decode(dict[str, dict[str, str]], codec.encode(passed, dict[str, dict[str, str]])) == passed
    pairs = {"m": ("identity", "SELECT '\n'")}
    assert codec.decode(dict[str, tuple[str, str]], codec.encode(pairs, dict[str, tuple[str, str]])) == pairs


def test_what_cannot_be_cached_is_refused_by_name() -> None:
    @dataclass(frozen=True)
    class Wrong:
        value: bytes

    with pytest.raises(TypeError, match="bytes"):
        codec.encode(Wrong(b""))


def test_decoding_leaves_the_collector_as_it_was() -> None:
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            codec.decode(_Leaf, codec.encode(_Leaf("a")))
            with pytest.raises(codec.Undecodable):
                codec.decode(_Leaf, "[")
            assert gc.isenabled() == enabled
        finally:
            gc.enable()
