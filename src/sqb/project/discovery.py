"""Finding the Python nodes of a project: its modules are imported in a process of their own, and then read.

What is decorated, and with which values, only running the modules can tell; where that is written, what it says and
what it is made of is read from the files. Everything that is wrong anywhere is reported.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqb.errors import DuplicateKey, Errors, Unreadable
from sqb.errors_python import BadModule, BadNode
from sqb.names import At
from sqb.project import discovery_cache
from sqb.project.discovery_failures import report_failures, syntax_error
from sqb.project.discovery_process import import_modules
from sqb.project.modules import Definition, Module, Modules, git_root, is_installed, search_path
from sqb.project.node_options import Given, check_options
from sqb.project.node_sources import Source, WrittenFunction, find_function, read_source
from sqb.project.python_nodes import FOLDER, Discovered, WrittenNode

_ELSEWHERE = {"table_function": "functions", "materialization": "materializations"}
# Arguments that say nothing about what a node does.
_NOT_IDENTITY = ("tags", "description", "enabled")


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of `python/`: their contents, and those that are Python."""

    root: Path
    top: Path
    raw: dict[str, bytes] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    # The modules that can be imported, by name.
    modules: dict[str, str] = field(default_factory=dict)

    def relative(self, file: str | Path) -> str:
        """A file as messages name it: from the project's folder."""
        return os.path.relpath(file, self.root)

    def within_top(self, file: Path) -> str:
        return os.path.relpath(file, self.top)


@dataclass(frozen=True, slots=True)
class _Found:
    """A decorated function: what the process told of it as one of all that are, and where it is written."""

    index: int
    told: Mapping[str, Any]
    file: str
    written: WrittenFunction

    @property
    def name(self) -> str:
        """What it is called; whether that is a name is another question."""
        given = self.told["options"].get("name")
        return given.strip() if isinstance(given, str) and given.strip() else self.written.function.name

    @property
    def full_name(self) -> str:
        """What others call it: a model is in the folder that its file is in."""
        if self.told["kind"] != "model":
            return self.name
        return f"{'_'.join(self.file.split('/')[2:-1]) or 'default'}.{self.name}"

    @property
    def definition(self) -> Definition:
        return Definition(Path(self.told["file"]), self.written.function.lineno, self.told["line"])

    @property
    def at(self) -> At:
        """Its name after `def`; where that is in another file, the line that calls for it."""
        return self.written.at if self.written.source.file == self.file else At(self.file, self.told["module_line"], 1)


def find_nodes(root: Path, paths: Iterable[str], errors: Errors, cache: Path | None = None) -> Discovered:
    """The nodes in the files of `python/`, from the cache when nothing that they are made of has changed."""
    root = Path(os.path.abspath(root))
    files = _Files(root, git_root(root))
    own = Errors()
    for path in sorted(paths):
        _read(path, files, own)
    if not files.raw:
        errors.found.extend(own.found)
        return Discovered(complete=not own.found)
    contents = {path: _digest(raw) for path, raw in files.raw.items()}
    if cache is not None and not own.found:
        kept = discovery_cache.load(cache, root, contents)
        if kept is not None:
            return kept
    for path in files.raw:
        _parse(path, files, own)
    discovered = _discover(files, own)
    if cache is not None and not own.found:
        discovery_cache.save(cache, contents, discovered)
    errors.found.extend(own.found)
    return discovered


def _read(path: str, files: _Files, errors: Errors) -> None:
    try:
        files.raw[path] = (files.root / path).read_bytes()
    except OSError as error:
        errors.add(Unreadable(f"this file cannot be read: {error.strerror}", at=At(path)))


def _parse(path: str, files: _Files, errors: Errors) -> None:
    """Parse a file; whatever keeps it from being imported is reported."""
    name = path.removeprefix(FOLDER).removesuffix(".py").removesuffix("/__init__")
    if "." in name:
        message = "a module whose file or folder has a dot in its name cannot be imported"
        errors.add(BadModule(message, at=At(path), hint="rename it"))
        return
    try:
        files.sources[path] = Source.read(path, files.raw[path])
    except (SyntaxError, ValueError, RecursionError) as error:
        errors.add(syntax_error(error, path))
    else:
        module = name.replace("/", ".")
        if module in files.modules:
            message = f"`import {module}` cannot mean both this file and {files.modules[module]}"
            errors.add(BadModule(message, at=At(path), hint="rename one of them"))
        files.modules[module] = path


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:32]


def _discover(files: _Files, errors: Errors) -> Discovered:
    folder = files.root / FOLDER
    absolute = {name: str(files.root / path) for name, path in files.modules.items()}
    heard = import_modules(files.root, folder, absolute)
    report_failures(heard.failures, files.root, files.top, files.sources, files.modules, errors)
    # Up to here, every error is one of a module.
    complete = not errors.found
    if heard.found is None:
        return Discovered(complete=False)
    found = _located(heard.found["nodes"], files, errors)
    search = search_path(folder, heard.found["path"], files.top)
    raw = {files.root / path: content for path, content in files.raw.items()}
    modules = Modules(search, [one.definition for one in found], raw)
    names = {one.index: one.full_name for one in found}
    nodes = [_node(one, names, modules, files, errors) for one in found]
    _refuse_duplicates(found, errors)
    outside = _outside(modules, files, heard.found["loaded"])
    # A loader that fills nothing is reported, and nobody could do anything with it.
    usable = (n for n in nodes if n.kind != "loader" or "source" in n.options)
    return Discovered(tuple(sorted(usable, key=lambda n: (n.name, n.file))), outside, complete)


def _located(told: Iterable[Mapping[str, Any]], files: _Files, errors: Errors) -> list[_Found]:
    """The decorated functions that modules of the project define, each where it is written."""
    found: list[_Found] = []
    elsewhere: dict[str, Source | None] = {}
    for index, one in enumerate(told):
        file = files.modules.get(one["module"])
        if file is None:
            continue
        if one["kind"] in _ELSEWHERE:
            message = f"@{one['kind']} means nothing in {FOLDER}"
            hint = f"move the function to {_ELSEWHERE[one['kind']]}/"
            errors.add(BadNode(message, at=At(file, one["module_line"], 1), hint=hint))
            continue
        written_in = files.relative(one["file"])
        source = files.sources.get(written_in)
        if source is None:
            if written_in not in elsewhere:
                elsewhere[written_in] = read_source(written_in, one["file"])
            source = elsewhere[written_in]
        written = find_function(source, one["line"]) if source is not None else None
        if written is None or one["form"] == "class":
            message = f"@{one['kind']} is not the decorator of a function"
            at = At(file, one["module_line"], 1)
            errors.add(BadNode(message, at=at, hint=f"write @{one['kind']} above `def`"))
            continue
        found.append(_Found(index, one, file, written))
    return found


def _node(one: _Found, names: Mapping[int, str], modules: Modules, files: _Files, errors: Errors) -> WrittenNode:
    told, written = one.told, one.written
    given = Given(
        told["kind"], _named(told["options"], names), written.decorator_at, written.places(), written.argument_names()
    )
    _check_form(one, errors)
    options = check_options(given, errors)
    name = one.name
    options.pop("name", None)
    if not name.isidentifier():
        at = given.places.get("name", one.at)
        hint = "use letters, digits and _, and no digit first"
        errors.add(BadNode(f'"{name}" cannot be the name of a node', at=at, hint=hint))
    made = modules.made_of(Module(told["module"], files.root / one.file), one.definition)
    refs = sorted(written.refs(), key=lambda ref: (ref[2].line, ref[2].column))
    _check_refs(one, refs, options, errors)
    identity = {key: value for key, value in options.items() if key not in _NOT_IDENTITY}
    return WrittenNode(
        name,
        told["kind"],
        one.file,
        told["module"],
        written.function.name,
        one.at,
        options,
        given.places,
        written.text,
        modules.said_by(one.definition),
        _digest(json.dumps([told["kind"], identity], sort_keys=True).encode()),
        {files.within_top(file): content for file, content in made.hashes.items()},
        {files.within_top(file): text for file, text in made.texts.items()},
        tuple((literal, at) for _, literal, at in refs if literal is not None),
        tuple(dict.fromkeys(literal for asked, literal, _ in refs if literal is not None and asked == "changes")),
    )


def _named(value: Any, names: Mapping[int, str]) -> Any:
    """Arguments in which functions of nodes are replaced by the names of these nodes."""
    match value:
        case {"node": int(index)} if index in names:
            return names[index]
        case dict():
            return {key: _named(item, names) for key, item in value.items()}
        case list():
            return [_named(item, names) for item in value]
        case _:
            return value


def _check_form(one: _Found, errors: Errors) -> None:
    """Whether a function can be called as a node is."""
    kind, name, at = one.told["kind"], one.written.function.name, one.at
    if one.told["unnamed"]:
        message = f"@{kind} takes its arguments by name"
        hint = f'for instance @{kind}({"source" if kind == "loader" else "depends_on"}="…")'
        errors.add(BadNode(message, at=one.written.decorator_at, hint=hint))
    if one.told["again"] == "first":
        errors.add(BadNode(f"{name} has more than one decorator of sqb", at=at, hint="make a function for each"))
    if one.told["form"] == "async":
        hint = f"write a plain function that calls asyncio.run(…): def {name}(ctx): …"
        errors.add(BadNode(f"{name} is asynchronous, which no node can be", at=at, hint=hint))
    elif one.told["form"] == "generator" and kind != "loader":
        message = f"calling {name} would do nothing, since it yields: only a loader may yield its rows"
        errors.add(BadNode(message, at=at, hint="return a value, or write ctx.result(…)"))
    if one.told["signature"] is not None:
        hint = f"a node is called with one argument, the context: def {name}(ctx):"
        errors.add(BadNode(f"{name}{one.told['signature']} cannot be called as a node", at=at, hint=hint))
    if kind == "model" and not one.file.startswith(f"{FOLDER}models/"):
        hint = f"move it to a file in {FOLDER}models/"
        errors.add(BadNode(f"the model {name} is not in {FOLDER}models/", at=at, hint=hint))


def _check_refs(
    one: _Found, refs: list[tuple[str, str | None, At]], options: Mapping[str, Any], errors: Errors
) -> None:
    """A model's place in the graph is read from its text, so that a name in it must be a literal or be said."""
    if one.told["kind"] != "model" or "depends_on" in options:
        return
    for asked, literal, at in refs:
        if literal is None:
            hint = "write the name in quotes, or say what the model reads with depends_on=[…]"
            errors.add(BadNode(f"what ctx.{asked} asks for cannot be read from the text", at=at, hint=hint))


def _refuse_duplicates(found: list[_Found], errors: Errors) -> None:
    places: dict[str, At] = {}
    for one in found:
        if one.told["again"]:
            continue
        at = one.written.places().get("name", one.at)
        also = places.setdefault(one.full_name.lower(), at)
        if also is not at:
            hint = 'call one of them something else: name="…"'
            errors.add(DuplicateKey(f"the Python node {one.name} is also defined at {also}", at=at, hint=hint))


def _outside(modules: Modules, files: _Files, loaded: Iterable[str]) -> dict[str, str]:
    """What nodes are made of that is not in `python/`, and what would be if it were there."""
    folder = files.root / FOLDER
    starts = [Module(name, files.root / path) for name, path in files.modules.items()]
    # What was imported in ways that cannot be read also decides what was found.
    reached = modules.all_from(starts) | {Path(file) for file in loaded}
    package = Path(__file__).resolve().parents[1]
    found = {}
    for file in reached:
        inside = file.is_relative_to(files.top) and not is_installed(file, files.top)
        if inside and not file.is_relative_to(folder) and not file.resolve().is_relative_to(package):
            found[files.relative(file)] = discovery_cache.content(file)
    found |= {files.relative(file): "" for file in modules.absent if not file.is_relative_to(folder)}
    return dict(sorted(found.items()))
