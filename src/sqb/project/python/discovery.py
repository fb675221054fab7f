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

from sqb.cache.files import PACKAGE
from sqb.errors.base import Errors
from sqb.errors.project import DuplicateKey, Unreadable
from sqb.errors.python import BadModule, BadNode
from sqb.names import At
from sqb.project.python import discovery_cache
from sqb.project.python.decorator_options import DecoratorArguments, check_options
from sqb.project.python.discovery_errors import build_syntax_error, report_failures
from sqb.project.python.discovery_process import import_modules
from sqb.project.python.function_source import Source, WrittenFunction, find_function, read_source
from sqb.project.python.imports import Definition, Module, Modules, build_search_path, find_git_root, is_installed
from sqb.project.python.nodes import FOLDER, Discovered, WrittenNode

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

    def to_relative(self, file: str | Path) -> str:
        """A file as messages name it: from the project's folder."""
        return os.path.relpath(file, self.root)

    def to_top_relative(self, file: Path) -> str:
        return os.path.relpath(file, self.top)


@dataclass(frozen=True, slots=True)
class _DecoratedFunction:
    """A decorated function: what the process reported of it as one of all that are, and where it is written."""

    index: int
    report: Mapping[str, Any]
    file: str
    written: WrittenFunction

    @property
    def name(self) -> str:
        """What it is called; whether that is a name is another question."""
        chosen_name = self.report["options"].get("name")
        return (
            chosen_name.strip() if isinstance(chosen_name, str) and chosen_name.strip() else self.written.function.name
        )

    @property
    def full_name(self) -> str:
        """What others call it: a model is in the folder that its file is in."""
        if self.report["kind"] != "model":
            return self.name
        return f"{'_'.join(self.file.split('/')[2:-1]) or 'default'}.{self.name}"

    @property
    def definition(self) -> Definition:
        return Definition(Path(self.report["file"]), self.written.function.lineno, self.report["line"])

    @property
    def at(self) -> At:
        """Its name after `def`; where that is in another file, the line that calls for it."""
        return (
            self.written.at if self.written.source.file == self.file else At(self.file, self.report["module_line"], 1)
        )


def find_nodes(root: Path, paths: Iterable[str], errors: Errors, cache: Path | None = None) -> Discovered:
    """The nodes in the files of `python/`, from the cache when nothing that they are made of has changed."""
    root = Path(os.path.abspath(root))
    files = _Files(root, find_git_root(root))
    local_errors = Errors()
    for path in sorted(paths):
        _read(path, files, local_errors)
    if not files.raw:
        errors.found.extend(local_errors.found)
        return Discovered(complete=not local_errors.found)
    contents = {path: _digest(raw) for path, raw in files.raw.items()}
    if cache is not None and not local_errors.found:
        cached = discovery_cache.load_discovered(cache, root, contents)
        if cached is not None:
            return cached
    for path in files.raw:
        _parse(path, files, local_errors)
    discovered = _discover(files, local_errors)
    if cache is not None and not local_errors.found:
        discovery_cache.save_discovered(cache, contents, discovered)
    errors.found.extend(local_errors.found)
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
        errors.add(build_syntax_error(error, path))
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
    functions = _locate_functions(heard.found["nodes"], files, errors)
    search = build_search_path(folder, heard.found["path"], files.top)
    raw = {files.root / path: content for path, content in files.raw.items()}
    modules = Modules(search, [one.definition for one in functions], raw)
    names = {function.index: function.full_name for function in functions}
    nodes = [_build_node(one, names, modules, files, errors) for one in functions]
    _refuse_duplicates(functions, errors)
    outside = _list_outside_files(modules, files, heard.found["loaded"])
    # A loader that fills nothing is reported, and cannot be used.
    usable = (n for n in nodes if n.kind != "loader" or "source" in n.options)
    return Discovered(tuple(sorted(usable, key=lambda n: (n.name, n.file))), outside, complete)


def _locate_functions(reports: Iterable[Mapping[str, Any]], files: _Files, errors: Errors) -> list[_DecoratedFunction]:
    """The decorated functions that modules of the project define, each where it is written."""
    functions: list[_DecoratedFunction] = []
    elsewhere: dict[str, Source | None] = {}
    for index, report in enumerate(reports):
        file = files.modules.get(report["module"])
        if file is None:
            continue
        if report["kind"] in _ELSEWHERE:
            message = f"@{report['kind']} means nothing in {FOLDER}"
            hint = f"move the function to {_ELSEWHERE[report['kind']]}/"
            errors.add(BadNode(message, at=At(file, report["module_line"], 1), hint=hint))
            continue
        written_in = files.to_relative(report["file"])
        source = files.sources.get(written_in)
        if source is None:
            if written_in not in elsewhere:
                elsewhere[written_in] = read_source(written_in, report["file"])
            source = elsewhere[written_in]
        written = find_function(source, report["line"]) if source is not None else None
        if written is None or report["form"] == "class":
            message = f"@{report['kind']} is not the decorator of a function"
            at = At(file, report["module_line"], 1)
            errors.add(BadNode(message, at=at, hint=f"write @{report['kind']} above `def`"))
            continue
        functions.append(_DecoratedFunction(index, report, file, written))
    return functions


def _build_node(
    function: _DecoratedFunction, names: Mapping[int, str], modules: Modules, files: _Files, errors: Errors
) -> WrittenNode:
    report, written = function.report, function.written
    arguments = DecoratorArguments(
        report["kind"],
        _replace_functions(report["options"], names),
        written.decorator_at,
        written.find_argument_places(),
        written.find_argument_names(),
    )
    _check_form(function, errors)
    options = check_options(arguments, errors)
    name = function.name
    options.pop("name", None)
    if not name.isidentifier():
        at = arguments.places.get("name", function.at)
        hint = "use letters, digits and _, and no digit first"
        errors.add(BadNode(f'"{name}" cannot be the name of a node', at=at, hint=hint))
    made = modules.collect_contents(Module(report["module"], files.root / function.file), function.definition)
    refs = sorted(written.iter_refs(), key=lambda ref: (ref[2].line, ref[2].column))
    _check_refs(function, refs, options, errors)
    identity = {key: value for key, value in options.items() if key not in _NOT_IDENTITY}
    return WrittenNode(
        name,
        report["kind"],
        function.file,
        report["module"],
        written.function.name,
        function.at,
        options,
        arguments.places,
        written.text,
        modules.hash_function(function.definition),
        _digest(json.dumps([report["kind"], identity], sort_keys=True).encode()),
        {files.to_top_relative(file): content for file, content in made.hashes.items()},
        {files.to_top_relative(file): text for file, text in made.texts.items()},
        tuple((literal, at) for _, literal, at in refs if literal is not None),
        tuple(dict.fromkeys(literal for method, literal, _ in refs if literal is not None and method == "changes")),
    )


def _replace_functions(value: Any, names: Mapping[int, str]) -> Any:
    """Arguments in which functions of nodes are replaced by the names of these nodes."""
    match value:
        case {"node": int(index)} if index in names:
            return names[index]
        case dict():
            return {key: _replace_functions(item, names) for key, item in value.items()}
        case list():
            return [_replace_functions(item, names) for item in value]
        case _:
            return value


def _check_form(function: _DecoratedFunction, errors: Errors) -> None:
    """Whether a function can be called as a node is."""
    kind, name, at = function.report["kind"], function.written.function.name, function.at
    if function.report["unnamed"]:
        message = f"@{kind} takes its arguments by name"
        hint = f'for instance @{kind}({"source" if kind == "loader" else "depends_on"}="…")'
        errors.add(BadNode(message, at=function.written.decorator_at, hint=hint))
    if function.report["again"] == "first":
        errors.add(BadNode(f"{name} has more than one decorator of sqb", at=at, hint="make a function for each"))
    if function.report["form"] == "async":
        hint = f"write a plain function that calls asyncio.run(…): def {name}(ctx): …"
        errors.add(BadNode(f"{name} is asynchronous, which no node can be", at=at, hint=hint))
    elif function.report["form"] == "generator" and kind != "loader":
        message = f"calling {name} would do nothing, since it yields: only a loader may yield its rows"
        errors.add(BadNode(message, at=at, hint="return a value, or write ctx.result(…)"))
    if function.report["signature"] is not None:
        hint = f"a node is called with one argument, the context: def {name}(ctx):"
        errors.add(BadNode(f"{name}{function.report['signature']} cannot be called as a node", at=at, hint=hint))
    if kind == "model" and not function.file.startswith(f"{FOLDER}models/"):
        hint = f"move it to a file in {FOLDER}models/"
        errors.add(BadNode(f"the model {name} is not in {FOLDER}models/", at=at, hint=hint))


def _check_refs(
    function: _DecoratedFunction, refs: list[tuple[str, str | None, At]], options: Mapping[str, Any], errors: Errors
) -> None:
    """A model's place in the graph is read from its text, so that a name in it must be a literal or be declared."""
    if function.report["kind"] != "model" or "depends_on" in options:
        return
    for method, literal, at in refs:
        if literal is None:
            hint = "write the name in quotes, or say what the model reads with depends_on=[…]"
            errors.add(BadNode(f"what ctx.{method} asks for cannot be read from the text", at=at, hint=hint))


def _refuse_duplicates(functions: list[_DecoratedFunction], errors: Errors) -> None:
    places: dict[str, At] = {}
    for function in functions:
        if function.report["again"]:
            continue
        at = function.written.find_argument_places().get("name", function.at)
        also = places.setdefault(function.full_name.lower(), at)
        if also is not at:
            hint = 'call one of them something else: name="…"'
            errors.add(DuplicateKey(f"the Python node {function.name} is also defined at {also}", at=at, hint=hint))


def _list_outside_files(modules: Modules, files: _Files, loaded: Iterable[str]) -> dict[str, str]:
    """What nodes are made of that is not in `python/`, and what would be if it were there."""
    folder = files.root / FOLDER
    starts = [Module(name, files.root / path) for name, path in files.modules.items()]
    # What was imported in ways that cannot be read also decides what was found.
    reached = modules.list_reachable(starts) | {Path(file) for file in loaded}
    hashes = {}
    for file in reached:
        inside = file.is_relative_to(files.top) and not is_installed(file, files.top)
        if inside and not file.is_relative_to(folder) and not file.resolve().is_relative_to(PACKAGE):
            hashes[files.to_relative(file)] = discovery_cache.hash_content(file)
    hashes |= {files.to_relative(file): "" for file in modules.absent if not file.is_relative_to(folder)}
    return dict(sorted(hashes.items()))
