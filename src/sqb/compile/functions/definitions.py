"""The project's functions: read, checked against each other, and put in place of their calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from sqb import identity
from sqb.compile.model import Function
from sqb.errors.base import Errors
from sqb.errors.project import BadCall, BadFunction, FunctionCycle, ProjectError
from sqb.graph import find_reachable, format_cycle, sort_topologically
from sqb.light_dataclass import dataclass
from sqb.names import At, locate_offset, suggest_nearest
from sqb.project import files
from sqb.project.functions.module_files import hash_installed_module, hash_module
from sqb.project.functions.python import DeclaredFunction, iter_declared_functions, load_python
from sqb.project.functions.sql import WrittenFunction, read_function
from sqb.project.functions.table import DeclaredTable
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.functions.body import LEAD, Body
from sqb.sql.functions.inline import (
    CallProblem,
    InlinedQuery,
    Parameter,
    PythonFunction,
    SqlFunction,
    bind_arguments,
    inline_calls,
)
from sqb.sql.text.calls import Calls, mark_function_calls, may_mention
from sqb.sql.text.expand import Expanded, ExpansionContext, ExpansionProblem, expand
from sqb.sql.text.lexer import tokenize_code

FOLDER = "functions"


class Analyst(Protocol):
    """What reads the texts of functions, and remembers what it read."""

    def calls(self, text: str, names: Collection[str]) -> Calls: ...
    def body(self, text: str, function: str, parameters: Sequence[str], forced: Mapping[int, str]) -> Body: ...
    def is_known(self, fact: str) -> bool: ...
    def note(self, fact: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Functions:
    """All functions of a project that can be used, by name in lower case."""

    root: Path
    analyst: Analyst
    sql: Mapping[str, SqlFunction] = field(default_factory=dict)
    written: Mapping[str, WrittenFunction] = field(default_factory=dict)
    python: Mapping[str, PythonFunction] = field(default_factory=dict)
    declared: Mapping[str, DeclaredFunction | DeclaredTable] = field(default_factory=dict)
    # Those that hooks and checks use.
    called: dict[str, None] = field(default_factory=dict)
    # What Python files say, each read once.
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> tuple[Expanded, ...]:
        return tuple(function.expanded for function in self.written.values())

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.sql, *self.python))

    @property
    def tables(self) -> dict[str, DeclaredTable]:
        """Those that are read in FROM."""
        return {name: function for name, function in self.declared.items() if isinstance(function, DeclaredTable)}

    def find_marks(self, text: str) -> dict[int, str]:
        """Where a query reads table functions, as places of references."""
        return mark_function_calls(tokenize_code(text), tables) if (tables := self.tables) else {}

    def inline_calls(self, expanded: Expanded) -> InlinedQuery | None:
        """A text with the calls of functions replaced, or None when it has none; raises `CallProblem`."""
        names = self.names
        if not names or not may_mention(expanded.text, names):
            return None
        calls = self.analyst.calls(expanded.text, names)
        return inline_calls(expanded, calls, {**self.sql, **self.python}) if calls.calls else None

    def extend_words(self, words: ExpansionContext) -> ExpansionContext:
        """Words that put functions in the place of their calls, too."""
        return replace(words, inline=self._inline) if self.names else words

    def _inline(self, expanded: Expanded) -> Expanded:
        try:
            inlined = self.inline_calls(expanded)
        except CallProblem as problem:
            start, end = expanded.trace_origin(problem.start), expanded.trace_origin(problem.end - 1) + 1
            raise ExpansionProblem("function", problem.message, start, end, problem.hint) from problem
        if inlined is None:
            return expanded
        self.called.update(dict.fromkeys(inlined.functions))
        python = {name: self.hash_python(name) for name in inlined.functions if name in self.python}
        return replace(inlined.expanded, functions=inlined.functions, python=python)

    def hash_python(self, name: str) -> str:
        """The identity of a Python function: what its file says, and what it imports of the folder."""
        declared = self.declared[name]
        parts = (declared.returns, str(declared.deterministic), self.hash_source(declared.file))
        return identity.digest("python function", name, *parts)

    def hash_source(self, file: str) -> str:
        """What a Python file says, and what it imports of the folder."""
        if file not in self.sources:
            is_own = not files.is_package_file(file)
            own = hash_module(self.root / FOLDER, self.root / file) if is_own else hash_installed_module(Path(file))
            self.sources[file] = own
        return self.sources[file]

    def hash_function(self, name: str, logical: Callable[[str], str]) -> str:
        """The identity of a function by itself; `logical` says what a table in its body means."""
        if name in self.python:
            return self.hash_python(name)
        function = self.sql[name]
        tables = [logical(t.name) for t in function.body.tables]
        return identity.compute_function_hash(self._build_signature(name), function.body.canonical, tables)

    def _build_signature(self, name: str) -> list[str]:
        function = self.sql[name]
        declared = [f"{p.name} {p.type} {_normalize_words(p.default)}" for p in function.parameters]
        return [function.returns or "", str(self.written[name].deterministic), *declared]

    def build_definition(self, name: str, logical: Callable[[str], str]) -> list[object]:
        """What a hash of a SQL function is made of, so that later code can make it again; [] for other functions."""
        if name in self.python:
            return []
        function = self.sql[name]
        spans = [[t.start + len(LEAD), t.end + len(LEAD), logical(t.name)] for t in function.body.tables]
        return [self._build_signature(name), f"{LEAD}{function.text})", spans]

    def list_volatile(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those that are declared not deterministic."""
        python = {n for n, d in self.declared.items() if not d.deterministic}
        sql = {n for n, w in self.written.items() if not w.deterministic}
        return tuple(name for name in names if name in python | sql)

    def build_function(self, name: str, own_hash: str) -> Function:
        """What the build needs to know of a function."""
        if name in self.python:
            declared = self.declared[name]
            source = (self.root / declared.file).read_text(encoding="utf-8", errors="replace")
            is_table = isinstance(declared, DeclaredTable)
            function = Function(
                name, "python", declared.file, own_hash, source, declared.returns, declared.deterministic
            )
            return replace(function, symbol=declared.symbol, is_table=is_table)
        written = self.written[name]
        statement = written.expanded.text.strip()
        return Function(name, "sql", written.file, own_hash, statement, written.returns or "", written.deterministic)

    def refuse_unloadable(self, used: Iterable[str], errors: Errors) -> None:
        """Carry out the Python files whose functions are used; what keeps one from being loaded is reported."""
        by_file: dict[str, list[str]] = {}
        for name in used:
            if name in self.declared:
                by_file.setdefault(self.declared[name].file, []).append(self.declared[name].symbol)
        for file, names in sorted(by_file.items()):
            # What a file imports may take long; one that could be loaded before is loaded again when Spark needs it.
            fact = f"python {sys.version} {file} {sorted(names)} {self.hash_source(file)}"
            before = len(errors.found)
            if not self.analyst.is_known(fact):
                load_python(self.root, file, names, errors)
                if len(errors.found) == before:
                    self.analyst.note(fact)


def _normalize_words(text: str | None) -> str:
    return "" if text is None else f"= {' '.join(text.split())}"


def load_functions(
    root: Path,
    paths: Iterable[str],
    words: ExpansionContext,
    analyst: Analyst,
    explain: Callable[[ExpansionProblem, At], ProjectError],
    errors: Errors,
) -> Functions:
    """The functions in the files of `functions/`; those that are wrong are reported and left out."""
    texts = {p: files.read_text(root, p, errors) for p in paths if files.is_in_folder(p, FOLDER)}
    return parse_functions(
        root, {p: text for p, text in texts.items() if text is not None}, words, analyst, explain, errors
    )


def parse_functions(
    root: Path,
    texts: Mapping[str, str],
    words: ExpansionContext,
    analyst: Analyst,
    explain: Callable[[ExpansionProblem, At], ProjectError],
    errors: Errors,
) -> Functions:
    """The functions in these texts, by the paths of their files."""
    declared: dict[str, DeclaredFunction | DeclaredTable] = {}
    written: dict[str, WrittenFunction] = {}
    places: dict[str, str] = {}
    for path, text in texts.items():
        if path.rpartition("/")[2].startswith("_"):
            continue
        if path.endswith(".py"):
            functions: Iterable[WrittenFunction | DeclaredFunction | DeclaredTable] = iter_declared_functions(
                path, text, errors
            )
        else:
            functions = _parse_file(path, text, words, explain, errors)
        for function in functions:
            if function.name in places:
                message = f"the function {function.name} is also declared in {places[function.name]}"
                errors.add(BadFunction(message, at=At(path), hint="rename one of the two"))
                continue
            places[function.name] = function.file
            if isinstance(function, WrittenFunction):
                written[function.name] = function
            else:
                declared[function.name] = function
    return _Loader(root, analyst, written, declared, errors).load() if places else Functions(root, analyst)


def _parse_file(
    path: str,
    text: str,
    words: ExpansionContext,
    explain: Callable[[ExpansionProblem, At], ProjectError],
    errors: Errors,
) -> list[WrittenFunction]:
    try:
        return [read_function(path, text, expand(text, 0, replace(words, inline=None)))]
    except ExpansionProblem as problem:
        errors.add(explain(problem, locate_offset(text, problem.start, path, problem.end - problem.start)))
    except BadFunction as problem:
        errors.add(problem)
    return []


class _Loader:
    """Reads the bodies of functions, each of which may call any other."""

    def __init__(
        self,
        root: Path,
        analyst: Analyst,
        written: Mapping[str, WrittenFunction],
        declared: Mapping[str, DeclaredFunction | DeclaredTable],
        errors: Errors,
    ) -> None:
        self.root, self.analyst, self.written, self.declared, self.errors = root, analyst, written, declared, errors
        self.names = frozenset((*written, *declared))

    def load(self) -> Functions:
        python = {
            name: PythonFunction(
                name,
                _build_python_parameters(definition),
                definition.deterministic,
                definition.open,
                isinstance(definition, DeclaredTable),
            )
            for name, definition in self.declared.items()
        }
        sql = {name: body for name, one in self.written.items() if (body := self._read_body(one)) is not None}
        for name in self._find_circular(sql):
            del sql[name]
        known: dict[str, SqlFunction | PythonFunction] = {**sql, **python}
        for name, function in sql.items():
            self._check_calls(self.written[name], function.calls, self.written[name].body_start, known)
        return Functions(self.root, self.analyst, sql, self.written, python, self.declared)

    def _read_body(self, function: WrittenFunction) -> SqlFunction | None:
        forced = {
            at - function.body_start: k
            for at, k in function.expanded.forced.items()
            if function.start <= at < function.end
        }
        try:
            body = self.analyst.body(function.body, function.name, [p.name for p in function.parameters], forced)
        except QueryProblem as problem:
            self.errors.add(
                self._build_error(function, problem, function.body_start, [p.name for p in function.parameters])
            )
            return None
        parameters = [self._build_parameter(function, index) for index in range(len(function.parameters))]
        calls = self.analyst.calls(function.body, self.names) if may_mention(function.body, self.names) else Calls()
        known = tuple(p for p in parameters if p is not None)
        if len(known) < len(parameters):
            return None
        return SqlFunction(function.name, known, function.returns, function.body, body, replace(calls, unnamed=()))

    def _build_parameter(self, function: WrittenFunction, index: int) -> Parameter | None:
        written = function.parameters[index]
        if written.default is None:
            return Parameter(written.name, written.type)
        start, end = written.default
        text = function.expanded.text[start:end]
        try:
            body = self.analyst.body(text, function.name, (), {})
            if body.has_subquery:
                raise QueryProblem("parse", "a default has no subquery", 0, len(text))
        except QueryProblem as problem:
            self.errors.add(self._build_error(function, problem, start, ()))
            return None
        calls = self.analyst.calls(text, self.names) if may_mention(text, self.names) else Calls()
        return Parameter(written.name, written.type, text, replace(calls, unnamed=()))

    def _build_error(
        self, function: WrittenFunction, problem: QueryProblem, offset: int, parameters: Sequence[str]
    ) -> BadFunction:
        message, hint = problem.message, problem.hint
        if problem.kind == "unknown":
            message = (
                f"{function.name} has no parameter {problem.message}"
                if offset == function.body_start
                else "not a constant"
            )
            message = (
                message
                if message != "not a constant"
                else f"a default must be a constant, and {problem.message} is not"
            )
            hint = (
                suggest_nearest(problem.message, parameters)
                or "a function sees its parameters, and what its own FROM has"
            )
        message = message.replace("a model is one SELECT", "a function returns one value")
        start = offset + problem.start
        # The bracket before a query is not in the file.
        at = function.locate(
            max(start, function.start) if offset == function.body_start else start, offset + problem.end
        )
        return BadFunction(message, at=at, hint=hint)

    def _find_circular(self, sql: Mapping[str, SqlFunction]) -> set[str]:
        edges = {name: sorted({c.name for c in f.calls.calls if c.name in sql}) for name, f in sql.items()}
        _, cycles = sort_topologically(edges)
        names = set()
        for cycle in cycles:
            first, second = cycle[0], cycle[1 % len(cycle)]
            call = next(c for c in sql[first].calls.calls if c.name == second)
            function = self.written[first]
            self.errors.add(
                FunctionCycle(
                    f"functions call each other in a circle: {format_cycle(cycle)}",
                    at=function.locate(
                        function.body_start + call.start, function.body_start + call.start + len(second)
                    ),
                    hint="remove one of these calls",
                )
            )
            names |= set(cycle)
        return find_reachable(names, _reverse_edges(edges)) if names else set()

    def _check_calls(
        self, function: WrittenFunction, calls: Calls, offset: int, known: Mapping[str, SqlFunction | PythonFunction]
    ) -> None:
        for call in calls.calls:
            try:
                called = known.get(call.name)
                if isinstance(called, PythonFunction) and called.is_table:
                    message = f"{call.name} is a table function, which only a model can read"
                    raise CallProblem(message, call.start, call.end, "read it in a model, and that model here")
                if called is not None:
                    bind_arguments(call, called)
            except CallProblem as problem:
                at = function.locate(offset + problem.start, offset + problem.end)
                self.errors.add(BadCall(problem.message, at=at, hint=problem.hint))


def _reverse_edges(edges: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    callers: dict[str, list[str]] = {}
    for name, called in edges.items():
        for callee in called:
            callers.setdefault(callee, []).append(name)
    return callers


def _build_python_parameters(function: DeclaredFunction | DeclaredTable) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, "", "…" if optional else None) for name, optional in function.parameters)
