"""Calls of the project's SQL functions replaced by what the functions say, with the types that they declare.

An argument is cast to its parameter's type and the result to the function's, as Spark does. A body without subqueries
is an expression, in which the arguments take the place of the parameters. A body with one is read over a single row
that holds the arguments under the parameters' names: so Spark itself tells columns from parameters, and no name of the
model can be taken for one of the body's, nor the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from sqb.names import quote
from sqb.sql.body import Body, Use
from sqb.sql.calls import Argument, Call, Calls, bare_name
from sqb.sql.expand import Expanded
from sqb.sql.functions import AGGREGATES, BY_CHANCE, OF_A_ROW, ORDERED_AGGREGATES, WINDOW
from sqb.sql.lexer import Token, closing, code
from sqb.sql.spans import SCOPE, Piece, piece_at, trace

_MANY_ROWS = AGGREGATES | ORDERED_AGGREGATES | WINDOW
# More text than a person means to write: functions that double what they are given, called within each other.
_LONGEST = 2_000_000


class CallProblem(Exception):
    """A call that cannot be carried out; `start` and `end` are its place in the text that holds it."""

    def __init__(self, message: str, start: int, end: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.hint = message, start, end, hint


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function; its type as written, and its default with the calls in it."""

    name: str
    type: str = ""
    default: str | None = None
    default_calls: Calls = Calls()


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function whose calls are replaced."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str | None
    text: str
    body: Body
    calls: Calls


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function that Spark calls: only its arguments are looked at."""

    name: str
    parameters: tuple[Parameter, ...]
    deterministic: bool = True
    # It takes any number of further arguments.
    open: bool = False
    # It makes rows, and stands where a table does.
    is_table: bool = False


Function = SqlFunction | PythonFunction


def bind(call: Call, function: Function) -> dict[str, Argument | None]:
    """The argument of every parameter, None for its default; a `CallProblem` when they do not fit."""
    known = {p.name: p for p in function.parameters}
    usage = f"write {signature(function)}"

    def wrong(message: str, argument: Argument | None = None) -> CallProblem:
        at = argument or call
        return CallProblem(f"{function.name}: {message}", at.start, max(at.end, at.start + 1), usage)

    given: dict[str, Argument | None] = {}
    named = False
    for index, argument in enumerate(call.arguments):
        if argument.bare:
            raise wrong(f"{argument.bare} is no argument", argument)
        if argument.name is None and named:
            raise wrong("an argument without a name follows one with a name", argument)
        named = named or argument.name is not None
        if argument.name is None and index >= len(known) and isinstance(function, PythonFunction) and function.open:
            continue
        if argument.name is None and index >= len(known):
            raise wrong(f"it takes {_count(known)}, and is given {len(call.arguments)}", argument)
        name = argument.name if argument.name is not None else list(known)[index]
        if name not in known:
            raise wrong(f"it has no parameter {name}", argument)
        if name in given:
            raise wrong(f"{name} is given twice", argument)
        given[name] = argument
    missing = [p.name for p in function.parameters if p.name not in given and p.default is None]
    if missing:
        raise wrong(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return {name: given.get(name) for name in known}


def signature(function: Function) -> str:
    """How a function is called: `net(amount DECIMAL(10,2), rate DOUBLE = 0.2)`."""
    parts = [
        " ".join(x for x in (p.name, p.type) if x) + (f" = {p.default}" if p.default is not None else "")
        for p in function.parameters
    ]
    more = ["…"] if isinstance(function, PythonFunction) and function.open else []
    return f"{function.name}({', '.join([*parts, *more])})"


def _count(known: Collection[str]) -> str:
    return f"{len(known)} argument{'' if len(known) == 1 else 's'}" if known else "no arguments"


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A run of the result: its text, where it came from, and the kind that a reference at its beginning must have."""

    text: str
    origin: int
    origin_end: int
    copied: bool = False
    within: str = ""
    forced: str | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """A text in which calls are replaced, and what is known of it."""

    text: str
    calls: Calls
    # The text of a model, for the way back; else what it is the body of, and the call that it stands for.
    model: Expanded | None = None
    body: Body | None = None
    function: str = ""
    site: tuple[int, int] = (0, 0)
    renamed: Mapping[str, str] = field(default_factory=dict)
    # What stands for each parameter; a parameter that is not here keeps its name.
    given: Mapping[str, list[_Chunk]] = field(default_factory=dict)

    def copy(self, start: int, end: int) -> list[_Chunk]:
        """A part of the text as it is."""
        if start >= end:
            return []
        if self.model is None:
            return [self.made(self.text[start:end])]
        pieces = self.model.pieces
        marks = {p.at for p in pieces} | set(self.model.forced)
        edges = [start, *sorted(m for m in marks if start < m < end), end]
        return [self._run(self.model, a, b) for a, b in pairwise(edges)]

    def _run(self, model: Expanded, start: int, end: int) -> _Chunk:
        origin, piece = trace(model.pieces, start), piece_at(model.pieces, start)
        copied = piece is None or piece.copied
        last = origin + end - start if piece is None or copied else piece.origin_end
        return _Chunk(self.text[start:end], origin, last, copied, forced=model.forced.get(start))

    def made(self, text: str, forced: str | None = None) -> _Chunk:
        """Text that stands for the call that this is the body of."""
        return _Chunk(text, *self.site, within=self.function, forced=forced)

    def site_of(self, call: Call) -> tuple[int, int]:
        if self.model is None:
            return self.site
        return trace(self.model.pieces, call.start), trace(self.model.pieces, call.end - 1) + 1


@dataclass(frozen=True, slots=True)
class Inlined:
    """A text without calls of SQL functions, and the functions that it uses, each once."""

    expanded: Expanded
    functions: tuple[str, ...]


def inline(expanded: Expanded, calls: Calls, functions: Mapping[str, Function]) -> Inlined:
    """The text with its calls replaced; a `CallProblem`, placed in the text, when one cannot be."""
    worker = _Inliner(functions)
    chunks = worker.replaced(_Source(expanded.text, calls, expanded), 0, len(expanded.text))
    pieces: list[Piece] = []
    forced: dict[int, str] = {}
    length = 0
    for chunk in chunks:
        if chunk.forced:
            forced[length] = chunk.forced
        pieces.append(Piece(length, chunk.origin, chunk.origin_end, chunk.copied, chunk.within))
        length += len(chunk.text)
    text = "".join(chunk.text for chunk in chunks)
    return Inlined(replace(expanded, text=text, pieces=tuple(pieces), forced=forced), tuple(worker.used))


class _Inliner:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self.by_chance = BY_CHANCE | {
            f.name for f in functions.values() if isinstance(f, PythonFunction) and not f.deterministic
        }
        self.used: dict[str, None] = {}
        self.length = 0

    def replaced(self, source: _Source, start: int, end: int) -> list[_Chunk]:
        """A part of a text with everything in it that stands for something else replaced."""
        out: list[_Chunk] = []
        position = start
        for at, last, chunks in self._edits(source, start, end):
            if at < position:
                continue
            out += [*source.copy(position, at), *chunks()]
            position = last
        return [*out, *source.copy(position, end)]

    def _edits(self, source: _Source, start: int, end: int) -> Iterable[tuple[int, int, Callable[[], list[_Chunk]]]]:
        """What is replaced in a part of a text, by place; of two at one place the wider first."""
        edits: list[tuple[int, int, Callable[[], list[_Chunk]]]] = []
        for call in source.calls.calls:
            function = self.functions.get(call.name)
            _refuse_place(call, function)
            if function is None:  # it was reported as wrong
                continue
            self.used.setdefault(function.name)
            if isinstance(function, SqlFunction):
                edits.append((call.start, call.end, partial(self._call, source, call, function)))
            else:
                bind(call, function)
        if source.body is not None:
            edits += [
                (u.start, u.end, partial(_argument, source, u)) for u in source.body.uses if u.parameter in source.given
            ]
            edits += [
                (t.start, t.end, partial(_table, source, t.parts[0], t.kind))
                for t in source.body.tables
                if len(t.parts) == 1
            ]
            edits += [(t.start, t.end, partial(_word, source, name)) for t, name in _renames(source)]
        elif source.model is not None:
            edits += [(at, at, partial(_word, source, f" AS {quote(name)}")) for at, name in source.calls.unnamed]
        inside = [e for e in edits if start <= e[0] and e[1] <= end]
        return sorted(inside, key=lambda e: (e[0], -e[1]))

    def _call(self, source: _Source, call: Call, function: SqlFunction) -> list[_Chunk]:
        given: dict[str, list[_Chunk]] = {}
        site = source.site_of(call)
        for name, argument in bind(call, function).items():
            parameter = next(p for p in function.parameters if p.name == name)
            if argument is not None:
                given[name] = self.replaced(source, argument.start, argument.end)
                self._refuse(call, argument, function, name, _text(given[name]))
            else:
                default = _Source(parameter.default or "", parameter.default_calls, None, None, function.name, site)
                given[name] = self.replaced(default, 0, len(default.text))
        try:
            made = self._body(function, given, site)
        except CallProblem as problem:
            # It stands in the body; what its author can do is to give it other arguments.
            raise CallProblem(problem.message, call.start, call.end, problem.hint) from problem
        self.length += sum(len(chunk.text) for chunk in made)
        if self.length > _LONGEST:
            raise CallProblem(
                f"{function.name} makes the query too long: functions use what they are given more than once",
                call.start,
                call.end,
                "compute the argument in a CTE first",
            )
        return made

    def _body(self, function: SqlFunction, given: dict[str, list[_Chunk]], site: tuple[int, int]) -> list[_Chunk]:
        types = {p.name: p.type for p in function.parameters}
        cast = {n: _cast(chunks, types[n], site, function.name) for n, chunks in given.items()}
        own = _Source(function.text, function.calls, None, function.body, function.name, site)
        if function.body.binds:
            inner = _bound(own, cast, self.replaced(own, 0, len(function.text)))
            self._refuse_in_a_row(function, inner)
        else:
            own = replace(own, given=cast, renamed=_new_names(function.body, given))
            inner = [own.made("("), *self.replaced(own, 0, len(function.text)), own.made(")")]
        return _cast(inner, function.returns, site, function.name) if function.returns else inner

    def _refuse_in_a_row(self, function: SqlFunction, chunks: list[_Chunk]) -> None:
        """Refuse what Spark would ask once, in the place of once for each row."""
        for name in _called(_text(chunks)):
            if name in self.by_chance | OF_A_ROW:
                raise CallProblem(
                    f"{function.name} has a subquery, in which {name}() would not be asked for each row",
                    0,
                    1,
                    "compute it in a CTE first, and give the function that column",
                )

    def _refuse(self, call: Call, argument: Argument, function: SqlFunction, name: str, text: str) -> None:
        """Refuse an argument of which more than its value would matter."""
        chance = next((name for name in _called(text) if name in self.by_chance), None)
        uses = [u for u in function.body.uses if u.parameter == name]
        if chance is not None and uses and not (len(uses) == 1 and uses[0].once):
            raise CallProblem(
                f"{chance}() says something else each time, and {function.name} may use {name} more than once",
                argument.start,
                argument.end,
                f"compute it in a CTE first, and give {function.name} that column",
            )
        if function.body.binds and _looks_at_many_rows(code(text)):
            raise CallProblem(
                f"{function.name} has a subquery, which cannot be given an aggregate or a window function",
                argument.start,
                argument.end,
                f"compute it in a CTE first, and give {function.name} that column",
            )


def _refuse_place(call: Call, function: Function | None) -> None:
    """Refuse a value where a table stands, and a table where a value does."""
    is_table = isinstance(function, PythonFunction) and function.is_table
    if call.as_table and not is_table:
        raise CallProblem(f"{call.name} returns one value, and stands where a table does", call.start, call.end)
    if is_table and not call.as_table:
        raise CallProblem(
            f"{call.name} is a table function, and does not stand where a table does",
            call.start,
            call.end,
            f"read it as a table: FROM {call.name}(…), or FROM t, LATERAL {call.name}(t.x)",
        )


def _called(text: str) -> list[str]:
    """The functions that a text calls, in lower case."""
    found = pairwise(code(text))
    return [bare_name(t).lower() for t, after in found if t.kind in ("word", "quoted") and after.text == "("]


def _text(chunks: Iterable[_Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def _argument(source: _Source, use: Use) -> list[_Chunk]:
    return source.given[use.parameter]


def _table(source: _Source, name: str, kind: str | None) -> list[_Chunk]:
    """A table of the body under a name that no CTE of the model has."""
    return [source.made(quote(SCOPE, name), kind)]


def _word(source: _Source, text: str) -> list[_Chunk]:
    return [source.made(text)]


def _cast(chunks: list[_Chunk], kind: str, site: tuple[int, int], function: str) -> list[_Chunk]:
    return [
        _Chunk("CAST(", *site, within=function),
        *chunks,
        _Chunk(f" AS {kind})", *site, within=function),
    ]


def _bound(own: _Source, given: Mapping[str, list[_Chunk]], body: list[_Chunk]) -> list[_Chunk]:
    """A body over one row with the arguments as columns, which see nothing but the query around the call."""
    if not given:
        return [own.made("(SELECT ("), *body, own.made("))")]
    out = [own.made("(SELECT ("), *body, own.made(") FROM (SELECT ")]
    if len(given) == 1:
        ((name, chunks),) = given.items()
        return [*out, *chunks, own.made(f" AS {quote(name)}) AS {quote(own.function)})")]
    # The columns get their names one query further out: within one, a name could mean the column before it.
    names = ", ".join(f"__sqb_{i} AS {quote(name)}" for i, name in enumerate(given))
    out.append(own.made(f"{names} FROM (SELECT "))
    for index, chunks in enumerate(given.values()):
        out += [*([own.made(", ")] if index else []), *chunks, own.made(f" AS __sqb_{index}")]
    return [*out, own.made(f")) AS {quote(own.function)})")]


def _new_names(body: Body, given: Mapping[str, list[_Chunk]]) -> dict[str, str]:
    """Other names for variables of lambdas that would catch a name in an argument."""
    used = {
        bare_name(t).lower() for chunks in given.values() for t in code(_text(chunks)) if t.kind in ("word", "quoted")
    }
    renamed: dict[str, str] = {}
    for variable in body.variables:
        if variable.name in used:
            number = 1
            while f"{variable.name}_{number}" in used | {v.name for v in body.variables}:
                number += 1
            renamed[variable.name] = quote(f"{variable.name}_{number}")
    return renamed


def _renames(source: _Source) -> Iterable[tuple[Token, str]]:
    if not source.renamed or source.body is None:
        return
    found = code(source.text)
    for index, token in enumerate(found):
        name = bare_name(token).lower() if token.kind in ("word", "quoted") else ""
        called = index + 1 < len(found) and found[index + 1].text == "("
        if name not in source.renamed or called or (index and found[index - 1].text == "."):
            continue
        if any(v.name == name and v.start <= token.start < v.end for v in source.body.variables):
            yield token, source.renamed[name]


def _looks_at_many_rows(found: Sequence[Token]) -> bool:
    """Whether an expression aggregates or uses a window, outside of subqueries of its own."""
    index = 0
    while index < len(found):
        after = found[index + 1].text.upper() if index + 1 < len(found) else ""
        if found[index].text == "(" and after in ("SELECT", "WITH"):
            index = closing(list(found), index) or len(found)
        word = found[index] if index < len(found) else None
        called = word is not None and word.kind == "word" and after == "("
        if word is not None and called and (word.text.upper() == "OVER" or word.text.lower() in _MANY_ROWS):
            return True
        index += 1
    return False
