"""The project's functions: read, checked against each other, and put in place of their calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from sqb import identity
from sqb.compiled import Function
from sqb.errors import BadCall, BadFunction, Errors, FunctionCycle, ProjectError
from sqb.graph import circle_text, closure, ordered
from sqb.names import At, did_you_mean, place
from sqb.project import files
from sqb.project.functions import WrittenFunction, read_function
from sqb.project.python_files import module_hash
from sqb.project.python_functions import DeclaredFunction, declared_functions, load_python
from sqb.project.table_functions import DeclaredTable
from sqb.sql.body import LEAD, Body
from sqb.sql.calls import Calls, marks_of, mentions
from sqb.sql.expand import Expanded, ExpansionProblem, Words, expand
from sqb.sql.inline import CallProblem, Inlined, Parameter, PythonFunction, SqlFunction, bind, inline
from sqb.sql.lexer import code
from sqb.sql.query import QueryProblem

FOLDER = "functions/"


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
        return tuple(one.expanded for one in self.written.values())

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.sql, *self.python))

    @property
    def tables(self) -> dict[str, DeclaredTable]:
        """Those that stand in FROM."""
        return {name: one for name, one in self.declared.items() if isinstance(one, DeclaredTable)}

    def marks(self, text: str) -> dict[int, str]:
        """Where a query reads table functions, as places of references."""
        return marks_of(code(text), tables) if (tables := self.tables) else {}

    def inlined(self, expanded: Expanded) -> Inlined | None:
        """A text with the calls of functions replaced, or None when it has none; raises `CallProblem`."""
        names = self.names
        if not names or not mentions(expanded.text, names):
            return None
        calls = self.analyst.calls(expanded.text, names)
        return inline(expanded, calls, {**self.sql, **self.python}) if calls.calls else None

    def in_words(self, words: Words) -> Words:
        """Words that put functions in the place of their calls, too."""
        return replace(words, inline=self._inline) if self.names else words

    def _inline(self, expanded: Expanded) -> Expanded:
        try:
            found = self.inlined(expanded)
        except CallProblem as problem:
            start, end = expanded.origin(problem.start), expanded.origin(problem.end - 1) + 1
            raise ExpansionProblem("function", problem.message, start, end, problem.hint) from problem
        if found is None:
            return expanded
        self.called.update(dict.fromkeys(found.functions))
        python = {name: self.python_hash(name) for name in found.functions if name in self.python}
        return replace(found.expanded, functions=found.functions, python=python)

    def python_hash(self, name: str) -> str:
        """The identity of a Python function: what its file says, and what it imports of the folder."""
        declared = self.declared[name]
        said = (declared.returns, str(declared.deterministic), self.source_hash(declared.file))
        return identity.digest("python function", name, *said)

    def source_hash(self, file: str) -> str:
        """What a Python file says, and what it imports of the folder."""
        if file not in self.sources:
            self.sources[file] = module_hash(self.root / FOLDER, self.root / file)
        return self.sources[file]

    def hash(self, name: str, logical: Callable[[str], str]) -> str:
        """The identity of a function by itself; `logical` says what a table in its body means."""
        if name in self.python:
            return self.python_hash(name)
        function = self.sql[name]
        tables = [logical(t.name) for t in function.body.tables]
        return identity.function_hash(self._signature(name), function.body.canonical, tables)

    def _signature(self, name: str) -> list[str]:
        function = self.sql[name]
        declared = [f"{p.name} {p.type} {_words_of(p.default)}" for p in function.parameters]
        return [function.returns or "", str(self.written[name].deterministic), *declared]

    def definition(self, name: str, logical: Callable[[str], str]) -> list[object]:
        """What a hash of a SQL function is made of, so that later code can make it again; [] for other functions."""
        if name in self.python:
            return []
        function = self.sql[name]
        spans = [[t.start + len(LEAD), t.end + len(LEAD), logical(t.name)] for t in function.body.tables]
        return [self._signature(name), f"{LEAD}{function.text})", spans]

    def volatile(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those that are said not to be deterministic."""
        python = {n for n, d in self.declared.items() if not d.deterministic}
        sql = {n for n, w in self.written.items() if not w.deterministic}
        return tuple(name for name in names if name in python | sql)

    def compiled(self, name: str, own_hash: str) -> Function:
        """What the build needs to know of a function."""
        if name in self.python:
            one = self.declared[name]
            source = (self.root / one.file).read_text(encoding="utf-8", errors="replace")
            is_table = isinstance(one, DeclaredTable)
            found = Function(name, "python", one.file, own_hash, source, one.returns, one.deterministic)
            return replace(found, symbol=one.symbol, is_table=is_table)
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
            fact = f"python {sys.version} {file} {sorted(names)} {self.source_hash(file)}"
            before = len(errors.found)
            if not self.analyst.is_known(fact):
                load_python(self.root, file, names, errors)
                if len(errors.found) == before:
                    self.analyst.note(fact)


def _words_of(text: str | None) -> str:
    return "" if text is None else f"= {' '.join(text.split())}"


def load_functions(
    root: Path,
    paths: Iterable[str],
    words: Words,
    analyst: Analyst,
    explain: Callable[[ExpansionProblem, At], ProjectError],
    errors: Errors,
) -> Functions:
    """The functions in the files of `functions/`; those that are wrong are reported and left out."""
    texts = {p: files.read_text(root, p, errors) for p in paths if p.startswith(FOLDER)}
    return functions_in(
        root, {p: text for p, text in texts.items() if text is not None}, words, analyst, explain, errors
    )


def functions_in(
    root: Path,
    texts: Mapping[str, str],
    words: Words,
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
            found: Iterable[WrittenFunction | DeclaredFunction | DeclaredTable] = declared_functions(path, text, errors)
        else:
            found = _written(path, text, words, explain, errors)
        for one in found:
            if one.name in places:
                message = f"the function {one.name} is also declared in {places[one.name]}"
                errors.add(BadFunction(message, at=At(path), hint="rename one of the two"))
                continue
            places[one.name] = one.file
            if isinstance(one, WrittenFunction):
                written[one.name] = one
            else:
                declared[one.name] = one
    return _Loader(root, analyst, written, declared, errors).load() if places else Functions(root, analyst)


def _written(
    path: str,
    text: str,
    words: Words,
    explain: Callable[[ExpansionProblem, At], ProjectError],
    errors: Errors,
) -> list[WrittenFunction]:
    try:
        return [read_function(path, text, expand(text, 0, replace(words, inline=None)))]
    except ExpansionProblem as problem:
        errors.add(explain(problem, place(text, problem.start, path, problem.end - problem.start)))
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
                name, _python_parameters(one), one.deterministic, one.open, isinstance(one, DeclaredTable)
            )
            for name, one in self.declared.items()
        }
        sql = {name: found for name, one in self.written.items() if (found := self._read(one)) is not None}
        for name in self._circular(sql):
            del sql[name]
        known: dict[str, SqlFunction | PythonFunction] = {**sql, **python}
        for name, function in sql.items():
            self._check_calls(self.written[name], function.calls, self.written[name].body_start, known)
        return Functions(self.root, self.analyst, sql, self.written, python, self.declared)

    def _read(self, one: WrittenFunction) -> SqlFunction | None:
        forced = {at - one.body_start: k for at, k in one.expanded.forced.items() if one.start <= at < one.end}
        try:
            body = self.analyst.body(one.body, one.name, [p.name for p in one.parameters], forced)
        except QueryProblem as problem:
            self.errors.add(self._problem(one, problem, one.body_start, [p.name for p in one.parameters]))
            return None
        parameters = [self._parameter(one, index) for index in range(len(one.parameters))]
        calls = self.analyst.calls(one.body, self.names) if mentions(one.body, self.names) else Calls()
        known = tuple(p for p in parameters if p is not None)
        if len(known) < len(parameters):
            return None
        return SqlFunction(one.name, known, one.returns, one.body, body, replace(calls, unnamed=()))

    def _parameter(self, one: WrittenFunction, index: int) -> Parameter | None:
        written = one.parameters[index]
        if written.default is None:
            return Parameter(written.name, written.type)
        start, end = written.default
        text = one.expanded.text[start:end]
        try:
            body = self.analyst.body(text, one.name, (), {})
            if body.binds:
                raise QueryProblem("parse", "a default has no subquery", 0, len(text))
        except QueryProblem as problem:
            self.errors.add(self._problem(one, problem, start, ()))
            return None
        calls = self.analyst.calls(text, self.names) if mentions(text, self.names) else Calls()
        return Parameter(written.name, written.type, text, replace(calls, unnamed=()))

    def _problem(
        self, one: WrittenFunction, problem: QueryProblem, offset: int, parameters: Sequence[str]
    ) -> BadFunction:
        message, hint = problem.message, problem.hint
        if problem.kind == "unknown":
            message = f"{one.name} has no parameter {problem.message}" if offset == one.body_start else "not a constant"
            message = message if message != "not a constant" else f"a default is a constant, and {problem.message} none"
            hint = (
                did_you_mean(problem.message, parameters) or "a function sees its parameters, and what its own FROM has"
            )
        message = message.replace("a model is one SELECT", "a function returns one value")
        start = offset + problem.start
        # The bracket before a query is not in the file.
        at = one.place(max(start, one.start) if offset == one.body_start else start, offset + problem.end)
        return BadFunction(message, at=at, hint=hint)

    def _circular(self, sql: Mapping[str, SqlFunction]) -> set[str]:
        edges = {name: sorted({c.name for c in f.calls.calls if c.name in sql}) for name, f in sql.items()}
        _, cycles = ordered(edges)
        found = set()
        for cycle in cycles:
            first, second = cycle[0], cycle[1 % len(cycle)]
            call = next(c for c in sql[first].calls.calls if c.name == second)
            one = self.written[first]
            self.errors.add(
                FunctionCycle(
                    f"functions call each other in a circle: {circle_text(cycle)}",
                    at=one.place(one.body_start + call.start, one.body_start + call.start + len(second)),
                    hint="take one of these calls out: what a function says must come to an end",
                )
            )
            found |= set(cycle)
        return closure(found, _reversed(edges)) if found else set()

    def _check_calls(
        self, one: WrittenFunction, calls: Calls, offset: int, known: Mapping[str, SqlFunction | PythonFunction]
    ) -> None:
        for call in calls.calls:
            try:
                called = known.get(call.name)
                if isinstance(called, PythonFunction) and called.is_table:
                    message = f"{call.name} is a table function, which only a model can read"
                    raise CallProblem(message, call.start, call.end, "read it in a model, and that model here")
                if called is not None:
                    bind(call, called)
            except CallProblem as problem:
                at = one.place(offset + problem.start, offset + problem.end)
                self.errors.add(BadCall(problem.message, at=at, hint=problem.hint))


def _reversed(edges: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    callers: dict[str, list[str]] = {}
    for name, called in edges.items():
        for one in called:
            callers.setdefault(one, []).append(name)
    return callers


def _python_parameters(one: DeclaredFunction | DeclaredTable) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, "", "…" if optional else None) for name, optional in one.parameters)
