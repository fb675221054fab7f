"""`@dataclass(frozen=True, slots=True)` as in the standard library, made in a third of the time.

Every command defines the classes of the modules that it loads, and the standard library (before Python 3.13) compiles
six functions for each: that was a fifth of a plan with nothing to do. Here `__init__` alone is compiled, once for all
plain classes with as many fields, and the other methods are closures. The classes are dataclasses in every respect:
`fields`, `replace` and `match` know them.
Modules that a plan loads use this one; elsewhere the standard library's does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from dataclasses import dataclass as _dataclass
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a dataclass of a class, as the standard library's decorator of this name does."""
        make = _make_light if options == {"frozen": True, "slots": True} else _dataclass(**options)
        return make if cls is None else make(cls)


class _Factory:
    """Stands for an argument that was not given and is made anew for each value."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _make_light(cls: Any) -> Any:
    own = dict(cls.__dict__)
    if not _is_simple(cls, own):
        return _dataclass(frozen=True, slots=True)(cls)
    made = _make_with_fields(cls, own.get("__annotations__", {}))
    parameters = made.__dataclass_params__
    parameters.init = parameters.repr = parameters.eq = parameters.frozen = True
    # By default an equality of the class's own takes its hash away; a frozen dataclass has one.
    own = {name: value for name, value in own.items() if name != "__hash__" or value is not None}
    for name, method in _build_methods(made, fields(made)).items():
        if name not in own:
            method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
            method.__module__ = made.__module__
            setattr(made, name, method)
    return made


def _make_with_fields(cls: Any, hints: dict[str, str]) -> Any:
    """The class with fields and slots; the hints are put in afterwards, as each text would be searched for ClassVar."""
    make = _dataclass(init=False, repr=False, eq=False, slots=True)
    if any("ClassVar" in hint for hint in hints.values()):
        return make(cls)
    cls.__annotations__ = dict.fromkeys(hints, object)
    made = make(cls)
    made.__annotations__ = hints
    for field in fields(made):
        field.type = hints[field.name]
    return made


def _is_simple(cls: type, own: Mapping[str, Any]) -> bool:
    """Whether a class has nothing that few classes have: a dataclass above it, keyword-only or pseudo fields."""
    if any(is_dataclass(base) for base in cls.__mro__[1:]) or "__setattr__" in own or "__delattr__" in own:
        return False
    if any(isinstance(value, Field) and value.kw_only is True for value in own.values()):
        return False
    annotations = own.get("__annotations__", {})
    # Python 3.14 keeps annotations elsewhere, and makes dataclasses quickly enough.
    return sys.version_info < (3, 14) and not any(
        not isinstance(hint, str) or "InitVar" in hint or "KW_ONLY" in hint for hint in annotations.values()
    )


def _build_methods(cls: Any, all_fields: tuple[Field[Any], ...]) -> dict[str, Any]:
    names = tuple(field.name for field in all_fields)
    shown = tuple(field.name for field in all_fields if field.repr)
    compared = _build_getter(tuple(field.name for field in all_fields if field.compare))
    hashed = _build_getter(
        tuple(field.name for field in all_fields if (field.compare if field.hash is None else field.hash))
    )

    def show(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def equals(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def compute_hash(self: Any) -> int:
        return hash(hashed(self))

    def refuse_assignment(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_deletion(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    def get_state(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def set_state(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=False):
            object.__setattr__(self, name, value)

    return {
        "__init__": _compile_init(cls, all_fields),
        "__repr__": recursive_repr()(show),
        "__eq__": equals,
        "__hash__": compute_hash,
        "__setattr__": refuse_assignment,
        "__delattr__": refuse_deletion,
        "__getstate__": get_state,
        "__setstate__": set_state,
    }


def _build_getter(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """What gives the values of these fields as a tuple, in C where there are several."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda value: ()
    get = attrgetter(names[0])
    return lambda value: (get(value),)


def _compile_init(cls: Any, all_fields: tuple[Field[Any], ...]) -> Any:
    """The function that gives each argument to the slot of its field."""
    if all(field.init and field.default_factory is MISSING for field in all_fields):
        init = _make_plain_init(cls, all_fields)
    else:
        init = _compile_own_init(cls, all_fields)
    hints = {field.name: field.type for field in all_fields if field.init}
    init.__annotations__ = {**hints, "return": None}
    return init


def _make_plain_init(cls: Any, all_fields: tuple[Field[Any], ...]) -> Any:
    """Of classes with as many fields it is the same code, with other names and other slots."""
    scope: dict[str, Any] = {f"_set_{n}": getattr(cls, field.name).__set__ for n, field in enumerate(all_fields)}
    code = _compile_plain_init(len(all_fields), hasattr(cls, "__post_init__"))
    code = code.replace(co_varnames=("self", *(field.name for field in all_fields)))
    defaults = tuple(field.default for field in all_fields if field.default is not MISSING)
    return FunctionType(code, scope, "__init__", defaults or None)


@cache
def _compile_plain_init(count: int, is_continued: bool) -> CodeType:
    parameters = ["self", *(f"_{n}" for n in range(count))]
    lines = [f" _set_{n}(self, _{n})" for n in range(count)]
    if is_continued:
        lines.append(" self.__post_init__()")
    code: CodeType = _compile_function(parameters, lines, {}).__code__
    return code


def _compile_own_init(cls: Any, all_fields: tuple[Field[Any], ...]) -> Any:
    scope: dict[str, Any] = {"_missing": _FACTORY}
    parameters, lines = ["self"], []
    for field in all_fields:
        name = field.name
        has_factory = field.default_factory is not MISSING
        if not field.init and not has_factory and field.default is MISSING:
            continue
        scope[f"_set_{name}"] = getattr(cls, name).__set__
        scope[f"_default_{name}"] = field.default_factory if has_factory else field.default
        value = f"_default_{name}()" if has_factory else f"_default_{name}"
        if field.init:
            default = "=_missing" if has_factory else "" if field.default is MISSING else f"=_default_{name}"
            parameters.append(name + default)
            value = f"{value} if {name} is _missing else {name}" if has_factory else name
        lines.append(f" _set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    return _compile_function(parameters, lines, scope)


def _compile_function(parameters: Sequence[str], lines: Sequence[str], scope: dict[str, Any]) -> Any:
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass"), scope)
    return scope["__init__"]
