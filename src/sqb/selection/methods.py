"""What the methods of selectors look at: `tag:x`, `path:x`, `config.kind:merge` and the others."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from sqb.errors.call import BadSelector
from sqb.names import find_nearest, suggest_nearest


class Selectable(Protocol):
    """What a selector looks at."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def after(self) -> tuple[str, ...]: ...


Nodes = Mapping[str, Selectable]


# What is asked of the lake and of the past, and the answers that there are.
FACTS: Mapping[str, tuple[str, ...]] = {
    "state": ("new", "modified", "old", "unmodified"),
    "source_status": ("fresher",),
    "result": ("error", "fail", "success", "skipped"),
}
# The methods that are not about nodes themselves.
OTHER_METHODS = ("source", "exposure", *FACTS)


def refuse_unknown_method(method: str) -> None:
    """Raise when no method is called so."""
    if method.startswith("config."):
        _build_config_matcher(method)
    elif method not in METHODS and method not in OTHER_METHODS:
        raise _build_unknown_method(method)


def _build_unknown_method(method: str) -> BadSelector:
    known = sorted({*filter(None, METHODS), "config.KEY", *OTHER_METHODS})
    hint = suggest_nearest(method, known) or f"methods: {', '.join(known)}"
    return BadSelector(f'"{method}:" is not a selector method', hint=hint)


def match_nodes(nodes: Nodes, method: str, value: str) -> set[str]:
    """The nodes that a method means."""
    test = _build_config_matcher(method) if method.startswith("config.") else METHODS.get(method)
    if test is None:
        raise _build_unknown_method(method)
    matches = {n.name for n in nodes.values() if test(n, value)}
    if not matches and not method:
        matches = {n.name for n in nodes.values() if _is_in_folder(n, value) or _is_file(n, value)}
    if not matches:
        core = f"{method}:{value}" if method else value
        close = find_nearest(value, _iter_candidates(nodes.values(), method))
        suggestions = " or ".join(repr(f"{method}:{c}" if method else c) for c in close)
        raise BadSelector(f'nothing is called "{core}"', hint=f"did you mean {suggestions}?" if close else None)
    return matches


def match_names(names: Iterable[str], pattern: str) -> list[str]:
    """The names that fit a glob, themselves or by their schema."""
    glob = pattern.lower()
    return [
        name
        for name in names
        if any(fnmatch.fnmatchcase(part, glob) for part in (name.lower(), name.lower().rpartition(".")[0]))
    ]


def _iter_candidates(nodes: Iterable[Selectable], method: str) -> Iterator[str]:
    """What the value of a selector could have been."""
    for node in nodes:
        folders = node.file.split("/")
        if method == "tag":
            yield from node.tags
        elif method == "path":
            yield from ("/".join(folders[:i]) for i in range(1, len(folders) + 1))
        elif method == "file":
            yield folders[-1]
        elif method == "resource_type":
            yield node.type
        elif method in ("owner", "group") or method.startswith("config."):
            yield from iter_texts(_read_setting(node, method.removeprefix("config.")))
        elif method in ("", "fqn", node.type):
            yield from (node.name, node.name.rpartition(".")[2])
            if method == "":
                yield from folders[1:-1]


def _matches_name(node: Selectable, value: str) -> bool:
    name, pattern = node.name.lower(), value.lower()
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.rpartition(".")[2], pattern)


def _matches_tag(node: Selectable, value: str) -> bool:
    return any(fnmatch.fnmatchcase(tag.lower(), value.lower()) for tag in node.tags)


def _matches_path(node: Selectable, value: str) -> bool:
    """A file, a folder, or a glob; a folder may be named without the `models/` before it."""
    clean = value.removeprefix("./").rstrip("/")
    return node.file.startswith(clean + "/") or fnmatch.fnmatchcase(node.file, clean) or _is_in_folder(node, value)


def _is_in_folder(node: Selectable, value: str) -> bool:
    """Whether a word is the node's file, or a folder or path of folders that it is in."""
    clean = value.removeprefix("./").rstrip("/")
    folder = node.file.rpartition("/")[0]
    return node.file == clean or f"/{clean.lower()}/" in f"/{folder.lower()}/"


def _is_file(node: Selectable, value: str) -> bool:
    """Whether a word is the name of the node's file, with its ending."""
    return node.file.rpartition("/")[2].lower() == value.lower()


def _matches_file(node: Selectable, value: str) -> bool:
    name = node.file.rpartition("/")[2].lower()
    return fnmatch.fnmatchcase(name, value.lower()) or fnmatch.fnmatchcase(name.rpartition(".")[0], value.lower())


def _build_type_matcher(kind: str) -> Callable[[Selectable, str], bool]:
    return lambda node, value: node.type == kind and _matches_name(node, value)


def _build_config_matcher(method: str) -> Callable[[Selectable, str], bool]:
    """`config.KEY:value`: any key of models, by its name or its synonym, and a key within one that is a mapping."""
    path = method.removeprefix("config.")
    word = path.partition(".")[0]
    from sqb.project.models.keys import WORDS, find_key  # few selectors ask for it

    if find_key(word) is None:
        raise BadSelector(f'"config.{word}:" names no key of models', hint=suggest_nearest(word, WORDS))
    return lambda node, value: _matches_setting(node, path, value)


def _matches_setting(node: Selectable, path: str, value: str) -> bool:
    texts = iter_texts(_read_setting(node, path))
    return any(fnmatch.fnmatchcase(text.lower(), value.lower()) for text in texts)


def _read_setting(node: Selectable, path: str) -> object:
    """What a model says under a key; None when it says nothing."""
    word, *inner = path.split(".")
    from sqb.project.models.keys import find_key  # few selectors ask for it

    key = find_key(word)
    name = key.name if key is not None else word
    value: object = node.kind if name == "kind" else node.settings.get(name)
    for part in inner:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def iter_texts(value: object) -> Iterator[str]:
    """The texts that a value of a setting is compared by."""
    match value:
        case None:
            return
        case bool():
            yield "true" if value else "false"
        case list() | tuple():
            for item in value:
                yield from iter_texts(item)
        case Mapping():
            yield from map(str, value)
        case other:
            yield str(other)


METHODS: Mapping[str, Callable[[Selectable, str], bool]] = {
    "": _matches_name,
    "fqn": _matches_name,
    "tag": _matches_tag,
    "path": _matches_path,
    "file": _matches_file,
    "owner": lambda node, value: _matches_setting(node, "owner", value),
    "group": lambda node, value: _matches_setting(node, "group", value),
    "resource_type": lambda node, value: fnmatch.fnmatchcase(node.type, value.lower()),
    "model": _build_type_matcher("model"),
    "seed": _build_type_matcher("seed"),
    "loader": _build_type_matcher("loader"),
    "task": _build_type_matcher("task"),
    "asset": _build_type_matcher("asset"),
    "check": _build_type_matcher("check"),
}
