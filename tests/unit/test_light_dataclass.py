"""Dataclasses that are made quickly are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import field
from types import ModuleType
from typing import Any, ClassVar

import pytest

from sqb import light_dataclass
from sqb.compile import model as compile_model
from sqb.plan import model as plan_model
from sqb.sql.delta.operators import model as operators

MAKERS = [
    pytest.param(light_dataclass.dataclass(frozen=True, slots=True), id="light"),
    pytest.param(dataclasses.dataclass(frozen=True, slots=True), id="standard"),
]
Make = Callable[[type], Any]


class _Plain:
    """Something."""

    count: ClassVar[int] = 0
    name: str
    size: int = 1
    parts: Mapping[str, int] = field(default_factory=dict)
    hidden: str = field(default="h", repr=False, compare=False)
    derived: str = field(init=False, repr=False, default="")
    made: list[int] = field(init=False, default_factory=list, compare=False)
    shown: str = field(default="", hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "derived", self.name.upper())

    def describe(self) -> str:
        return f"{self.name} {self.size}"


class _Alone:
    """One field."""

    value: Any


class _Empty:
    """None."""


class _Own:
    """Methods of its own stay."""

    value: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return True


def make(maker: Make, plain: type) -> Any:
    """A dataclass of a class that stays as it is."""
    body = {k: v for k, v in plain.__dict__.items() if k not in ("__dict__", "__weakref__")}
    return maker(type(plain.__name__, plain.__bases__, body))


@pytest.mark.parametrize("maker", MAKERS)
def test_arguments_defaults_and_what_is_derived(maker: Make) -> None:
    cls = make(maker, _Plain)
    value = cls("a", 2)
    assert (value.name, value.size, value.parts, value.hidden, value.derived) == ("a", 2, {}, "h", "A")
    assert value.made == [] and value.made is not cls("a").made and value.parts is not cls("a").parts
    assert cls(name="b", shown="x").shown == "x" and value.describe() == "a 2"
    assert str(inspect.signature(cls)) == str(
        inspect.signature(make(dataclasses.dataclass(frozen=True, slots=True), _Plain))
    )
    for arguments, named in (((), {}), (("a",), {"none": 1}), (("a",), {"name": "b"}), (("a",), {"derived": "x"})):
        with pytest.raises(TypeError):
            cls(*arguments, **named)


@pytest.mark.parametrize("maker", MAKERS)
def test_equality_hash_and_text(maker: Make) -> None:
    cls = make(maker, _Plain)
    one, other = cls("a", parts=frozenset(), hidden="x"), cls("a", parts=frozenset(), hidden="y")
    assert one == other and hash(one) == hash(other) and one != cls("b", parts=frozenset())
    shown = cls("a", parts=frozenset(), shown="z")
    assert one != shown and hash(one) == hash(shown)
    assert one != "a" and one.__eq__("a") is NotImplemented
    assert repr(one) == "_Plain(name='a', size=1, parts=frozenset(), made=[], shown='')"
    with pytest.raises(TypeError):
        hash(cls("a"))
    alone, nan = make(maker, _Alone), float("nan")
    assert alone(nan) == alone(nan), "the same value, as in a tuple"
    empty = make(maker, _Empty)
    assert empty() == empty() and hash(empty()) == hash(empty()) and repr(empty()) == "_Empty()"


@pytest.mark.parametrize("maker", MAKERS)
def test_nothing_can_be_assigned_or_deleted(maker: Make) -> None:
    value = make(maker, _Plain)("a")
    for name in ("name", "derived"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(value, name, "b")
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(value, name)
    assert not hasattr(value, "__dict__")
    with pytest.raises((AttributeError, TypeError)):
        value.unknown = 1


@pytest.mark.parametrize("maker", MAKERS)
def test_the_functions_of_the_standard_library(maker: Make) -> None:
    cls = make(maker, _Plain)
    value = cls("a", 2)
    assert dataclasses.is_dataclass(cls)
    assert [f.name for f in dataclasses.fields(cls)] == ["name", "size", "parts", "hidden", "derived", "made", "shown"]
    assert dataclasses.replace(value, name="b") == cls("b", 2)
    assert dataclasses.asdict(value)["derived"] == "A"
    assert cls.__match_args__ == ("name", "size", "parts", "hidden", "shown")
    assert copy.copy(value) == value == copy.deepcopy(value)
    assert cls.__dataclass_params__.frozen and cls.__dataclass_params__.eq
    match value:
        case cls(name, 2):
            assert name == "a"
        case _:
            raise AssertionError


@pytest.mark.parametrize("maker", MAKERS)
def test_own_methods_stay(maker: Make) -> None:
    cls = make(maker, _Own)
    assert repr(cls(1)) == "own" and cls(1) == cls(2) and hash(cls(1)) == hash(cls(1))


@pytest.mark.parametrize("maker", MAKERS)
def test_classes_below(maker: Make) -> None:
    base = make(maker, _Alone)
    below = maker(type("Below", (base,), {"__annotations__": {"more": "int"}, "more": 3, "__doc__": "Below."}))
    assert below(1) == below(1, 3) != base(1) and repr(below(1)) == "Below(value=1, more=3)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        below(1).value = 2


@light_dataclass.dataclass(frozen=True, slots=True)
class _Pickled:
    name: str
    size: int = 1


def test_values_go_to_other_processes() -> None:
    value = _Pickled("a", 2)
    assert pickle.loads(pickle.dumps(value)) == value


def test_what_contains_itself_is_shown() -> None:
    inside: list[Any] = []
    value = make(light_dataclass.dataclass(frozen=True, slots=True), _Alone)(inside)
    inside.append(value)
    assert repr(value) == "_Alone(value=[...])"


def test_other_options_are_left_to_the_standard_library() -> None:
    @light_dataclass.dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        value: int

    @light_dataclass.dataclass
    class Changing:
        value: int

    @light_dataclass.dataclass(frozen=True, slots=True)
    class Named:
        value: int = field(kw_only=True)

    assert Ordered(1) < Ordered(2)
    changing = Changing(1)
    changing.value = 2
    assert changing == Changing(2)
    assert Named(value=1).value == 1


@pytest.mark.parametrize("module", [operators, plan_model, compile_model], ids=lambda module: module.__name__)
def test_classes_of_the_package_are_called_as_those_of_the_standard_library(module: ModuleType) -> None:
    classes = [c for c in vars(module).values() if dataclasses.is_dataclass(c) and c.__module__ == module.__name__]
    assert len(classes) > 5
    for cls in classes:
        made = dataclasses.make_dataclass(
            cls.__name__, [(f.name, f.type, copy_field(f)) for f in dataclasses.fields(cls)]
        )
        assert str(inspect.signature(cls)) == str(inspect.signature(made))
        for arguments in ((), (None,) * 99):
            messages = []
            for each in (cls, made):
                with pytest.raises(TypeError) as caught:
                    each(*arguments, unknown=1)
                messages.append(str(caught.value).partition("__init__()")[2])
            assert messages[0] == messages[1] != ""


def copy_field(of: Any) -> Any:
    return field(default=of.default, default_factory=of.default_factory, init=of.init, repr=of.repr, compare=of.compare)
