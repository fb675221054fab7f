"""Dataclasses to and from text, driven by their fields and annotations: the one format of all caches.

A field that is added to a class is cached without another line of code. As `dataclasses` does for `__init__`, the code
for a class is generated, once and when it is first needed: a plan of 2,000 models decodes tens of thousands of objects.
A value becomes a JSON array of its fields in their order, so what is read must have been written by the same code;
whoever reads a cache compares stamps first. Nothing here knows of files, or of what sqb caches.
"""

from __future__ import annotations

import gc
import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Convert = Callable[[Any], Any]
# What JSON gives back as it was.
_PLAIN = frozenset([str, int, float, bool, type(None), Any])
_MAPPINGS = frozenset([Mapping, dict])


class Undecodable(ValueError):
    """A text is not what `encode` made of a value of this kind."""


def encode(value: object, kind: Any = None) -> str:
    """The text of a value, in ASCII and without line breaks; `kind` is its type where it is not a dataclass."""
    return json.dumps(_get_encoder(kind or type(value))(value), separators=(",", ":"))


def decode(kind: type[T], text: str) -> T:
    """The value in a text that `encode` made; anything else is `Undecodable`."""
    return decode_all(kind, (text,))[0]


def decode_all(kind: type[T], texts: Iterable[str]) -> list[T]:
    """The values in texts that `encode` made; one call to the parser is much quicker than one for each text."""
    encoded = list(texts)
    try:
        with pause_collection():
            convert = _get_decoder(kind)
            values = [convert(value) for value in json.loads(f"[{','.join(encoded)}]")]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise Undecodable(f"not a cached {kind}: {error}") from error
    if len(values) != len(encoded):
        raise Undecodable(f"{len(encoded)} texts hold {len(values)} values")
    return values


@contextmanager
def pause_collection() -> Iterator[None]:
    """For work that makes many objects and no garbage: collections meanwhile only cost, a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _generate_encoder(kind: Any) -> Convert:
    scope: dict[str, Any] = {}
    if not is_dataclass(kind):
        return _generate(scope, _write_encoding(kind, "value", scope))
    hints = typing.get_type_hints(kind)
    return _generate(scope, _join(_write_encoding(hints[n], f"value.{n}", scope) for n in _list_fields(kind)))


def _generate_decoder(kind: Any) -> Convert:
    scope: dict[str, Any] = {"kind": kind}
    if not is_dataclass(kind):
        return _generate(scope, _write_decoding(kind, "value", scope))
    hints = typing.get_type_hints(kind)
    names = _list_fields(kind)
    arguments = ", ".join(_write_decoding(hints[n], f"{n}_", scope) for n in names)
    return _generate(scope, f"kind({arguments})", unpack=[f"{n}_" for n in names])


_get_encoder: Callable[[Any], Convert] = cache(_generate_encoder)
_get_decoder: Callable[[Any], Convert] = cache(_generate_decoder)


def _list_fields(kind: Any) -> list[str]:
    """The fields that make a value; others are derived from them."""
    return [f.name for f in fields(kind) if f.init]


def _generate(scope: dict[str, Any], expression: str, unpack: Sequence[str] = ()) -> Convert:
    lines = ["def convert(value):", f"    {_join(unpack)} = value" if unpack else "", f"    return {expression}"]
    exec("\n".join(lines), scope)
    convert: Convert = scope["convert"]
    return convert


def _join(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _write_encoding(hint: Any, value: str, scope: dict[str, Any]) -> str:
    """The expression that turns `value`, of the type in an annotation, into what JSON can hold."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_plain(hint):
        return value
    if _is_union(origin):
        if len(kinds := _list_classes(arguments)) > 1 or str in arguments:
            return _call(scope, _make_union_encoder(kinds), value)
        return f"(None if {value} is None else {_write_encoding(kinds[0], value, scope)})"
    if origin is tuple and arguments[-1] is not ...:
        return _join(_write_encoding(a, f"{value}[{i}]", scope) for i, a in enumerate(arguments))
    if origin in (tuple, list):
        inner = _write_encoding(arguments[0], "item", scope)
        return value if inner == "item" else f"[{inner} for item in {value}]"
    if origin is frozenset:
        return f"sorted({value})"
    if origin in _MAPPINGS:
        inner = _write_encoding(arguments[1], "item", scope)
        return f"dict({value})" if inner == "item" else f"{{key: {inner} for key, item in {value}.items()}}"
    if hint is datetime:
        return f"{value}.isoformat()"
    if is_dataclass(hint):
        return _call_class(scope, _get_encoder, hint, value)
    if hasattr(hint, "to_cache"):
        return f"{value}.to_cache()"
    raise TypeError(f"values of the type {hint} cannot be cached")


def _write_decoding(hint: Any, value: str, scope: dict[str, Any]) -> str:
    """The expression that turns what JSON holds, `value`, back into the type in an annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_plain(hint):
        return value
    if _is_union(origin):
        if len(kinds := _list_classes(arguments)) > 1 or str in arguments:
            return _call(scope, _make_union_decoder(kinds), value)
        return f"(None if {value} is None else {_write_decoding(kinds[0], value, scope)})"
    if origin is tuple and arguments[-1] is not ...:
        return f"({', '.join(_write_decoding(a, f'{value}[{i}]', scope) for i, a in enumerate(arguments))},)"
    if origin in (tuple, list, frozenset):
        inner = _write_decoding(arguments[0], "item", scope)
        return f"{origin.__name__}({value if inner == 'item' else f'[{inner} for item in {value}]'})"
    if origin in _MAPPINGS:
        inner = _write_decoding(arguments[1], "item", scope)
        return value if inner == "item" else f"{{key: {inner} for key, item in {value}.items()}}"
    if hint is datetime:
        return _call(scope, datetime.fromisoformat, value)
    if is_dataclass(hint):
        return _call_class(scope, _get_decoder, hint, value)
    if hasattr(hint, "from_cache"):
        return _call(scope, hint.from_cache, value)
    raise TypeError(f"values of the type {hint} cannot be cached")


def _is_plain(hint: Any) -> bool:
    if typing.get_origin(hint) is typing.Literal:
        return True
    return all(map(_is_plain, typing.get_args(hint))) if _is_union(typing.get_origin(hint)) else hint in _PLAIN


def _is_union(origin: Any) -> bool:
    return origin is types.UnionType or origin is typing.Union


def _list_classes(options: Iterable[Any]) -> list[Any]:
    """What a union is made of beside plain values."""
    return [option for option in options if not _is_plain(option)]


def _make_union_encoder(kinds: Iterable[Any]) -> Convert:
    """Of several classes each value is written with the name of its own."""
    named = {kind: kind.__name__ for kind in kinds}
    return lambda value: [named[type(value)], _get_encoder(type(value))(value)] if type(value) in named else value


def _make_union_decoder(kinds: Iterable[Any]) -> Convert:
    by_name = {kind.__name__: kind for kind in kinds}
    return lambda value: _get_decoder(by_name[value[0]])(value[1]) if isinstance(value, list) else value


def _call(scope: dict[str, Any], function: Convert, value: str) -> str:
    name = f"convert_{len(scope)}"
    scope[name] = function
    return f"{name}({value})"


def _call_class(scope: dict[str, Any], get: Callable[[Any], Convert], kind: Any, value: str) -> str:
    """A call of another class's code, which is generated at the first call: few projects use all classes."""
    name = f"convert_{len(scope)}"

    def convert_first(first: Any) -> Any:
        scope[name] = get(kind)
        return scope[name](first)

    scope[name] = convert_first
    return f"{name}({value})"
