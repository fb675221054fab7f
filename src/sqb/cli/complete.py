"""What shells complete: names of nodes, targets and environments. It answers while people type, so it reads little.

Names of nodes come from what was compiled last, whether or not that is still current; nothing here ever fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

    Complete = Callable[[click.Context, click.Parameter, str], list[str]]

# A compiled project is cached one node a line, which begins with its name and its type; above them are three lines.
_NODE = re.compile(r'\["((?:[^"\\]|\\.)*)","(?:model|seed)","')
_PYTHON = re.compile(r'"((?:[^"\\]|\\.)*)":\["(?:[^"\\]|\\.)*","(?:loader|task|asset|check)"')
_LEAD = 3
# What may be before a name in a selector: + and @, how far up, and the selectors before a comma.
_OPERATORS = re.compile(r"^(?:.*,)?(?:@|\d*\+)?")
_METHODS = ("tag:", "path:", "source:", "exposure:", "config.")
_VALUES = {
    "state:": ("new", "modified", "old", "unmodified"),
    "result:": ("success", "error", "fail", "skipped"),
    "resource_type:": ("model", "seed", "loader", "task", "asset", "check"),
    "source_status:": ("fresher",),
}
_TAGS = re.compile(r'"tags":(\[(?:"(?:[^"\\]|\\.)*",?)+\])')
_SELECTOR = re.compile(r"^\s*-?\s*name:\s*[\"']?([\w.-]+)", re.MULTILINE)


def _never_fail(complete: Complete) -> Complete:
    @wraps(complete)
    def wrapped(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        with suppress(Exception):
            return complete(context, parameter, incomplete)
        return []

    return wrapped


@_never_fail
def complete_nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The nodes whose names begin so, as they are called in full and in short."""
    return _match(_list_short_and_full(_read_names(_find_root(context))), incomplete)


@_never_fail
def complete_selectors(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The same, behind what is before a name in a selector; and the methods of selectors."""
    match = _OPERATORS.match(incomplete)
    lead = match[0] if match is not None else ""
    begun = incomplete[len(lead) :]
    return [lead + word for word in _match(_list_selectors(begun, _find_root(context)), begun)]


def _list_selectors(begun: str, root: Path) -> list[str]:
    """What a selector may go on as: the values of a method whose colon is there, else names and methods."""
    method = f"{begun.partition(':')[0].lower()}:"
    if ":" not in begun:
        return [*_list_short_and_full(_read_names(root)), *_METHODS, *_VALUES]
    values = _read_tags(root) if method == "tag:" else _VALUES.get(method, ())
    return [method + value for value in values]


@_never_fail
def complete_targets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The targets of the project."""
    import tomllib  # only where it is asked

    document = tomllib.loads((_find_root(context) / "sqlbuild_project.toml").read_text(encoding="utf-8"))
    return _match(document.get("targets") or {"dev": None}, incomplete)


@_never_fail
def complete_environments(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The virtual environments of the project."""
    from contextlib import closing

    from sqb.environments.session import open_workspace_store  # loads their database
    from sqb.workspace import open_workspace

    with closing(open_workspace_store(open_workspace(_find_root(context), context.params.get("target")))) as store:
        return _match(store.read_environments(), incomplete)


@_never_fail
def complete_named_selectors(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The selections of selectors.yml."""
    return _match(_SELECTOR.findall((_find_root(context) / "selectors.yml").read_text(encoding="utf-8")), incomplete)


def _match(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted({word for word in words if word.lower().startswith(incomplete.lower())})


def _find_root(context: click.Context) -> Path:
    from sqb.project.files import find_root

    return find_root(Path(context.params.get("project_dir") or "."))


def _list_short_and_full(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield name.rpartition(".")[2]


def _read_names(root: Path) -> list[str]:
    """The names of the nodes of what was compiled last."""
    text = _read_cache(root)
    if text is None:
        from sqb.workspace import open_workspace  # the first time it is compiled

        return list(open_workspace(root).project.graph)
    lines = text.split("\n")
    names = [match[1] for line in lines[_LEAD:] if (match := _NODE.match(line)) is not None]
    names += _PYTHON.findall(lines[_LEAD - 1])
    return [json.loads(f'"{name}"') for name in names]


def _read_tags(root: Path) -> set[str]:
    """The tags in what was compiled last."""
    text = _read_cache(root)
    if text is None:
        from sqb.workspace import open_workspace  # the first time it is compiled

        open_workspace(root)
        text = _read_cache(root)
    return {tag for match in _TAGS.finditer(text or "") for tag in json.loads(match[1])}


def _read_cache(root: Path) -> str | None:
    """The text of what was compiled last; None where that is nothing."""
    caches = sorted((root / ".sqb" / "cache").glob("project-*.json"), key=lambda path: path.stat().st_mtime_ns)
    return caches[-1].read_text(encoding="utf-8") if caches else None
