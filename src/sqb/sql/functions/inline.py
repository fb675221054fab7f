"""Calls of the project's SQL functions replaced by what the functions say, with the types that they declare.

An argument is cast to its parameter's type and the result to the function's, as Spark does. A body without subqueries
is an expression, in which the arguments take the place of the parameters. A body with one is read over a single row
that holds the arguments under the parameters' names: so Spark itself tells columns from parameters, and no name of the
model can be taken for one of the body's, nor the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import pairwise

from sqb.light_dataclass import dataclass
from sqb.names import quote
from sqb.sql.functions.body import Body, Use
from sqb.sql.functions.builtins import AGGREGATES, NONDETERMINISTIC, ORDERED_AGGREGATES, ROW_METADATA, WINDOW
from sqb.sql.text.calls import Argument, Call, Calls
from sqb.sql.text.expand import Expanded
from sqb.sql.text.lexer import Token, find_closing, strip_quotes, tokenize_code
from sqb.sql.text.spans import SCOPE, Piece, find_piece, trace_offset

_MANY_ROWS = AGGREGATES | ORDERED_AGGREGATES | WINDOW
# More text than a person means to write: functions that double what they are given, called within each other.
_MAX_LENGTH = 2_000_000


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
    is_variadic: bool = False
    # It makes rows, and is read as a table.
    is_table: bool = False


Function = SqlFunction | PythonFunction


def bind_arguments(call: Call, function: Function) -> dict[str, Argument | None]:
    """The argument of every parameter, None for its default; a `CallProblem` when they do not fit."""
    parameters = {p.name: p for p in function.parameters}
    usage = f"write {format_signature(function)}"

    def build_problem(message: str, argument: Argument | None = None) -> CallProblem:
        at = argument or call
        return CallProblem(f"{function.name}: {message}", at.start, max(at.end, at.start + 1), usage)

    bound: dict[str, Argument | None] = {}
    has_named = False
    for index, argument in enumerate(call.arguments):
        if argument.bare:
            raise build_problem(f"{argument.bare} is not an argument", argument)
        if argument.name is None and has_named:
            raise build_problem("an argument without a name follows one with a name", argument)
        has_named = has_named or argument.name is not None
        if (
            argument.name is None
            and index >= len(parameters)
            and isinstance(function, PythonFunction)
            and function.is_variadic
        ):
            continue
        if argument.name is None and index >= len(parameters):
            raise build_problem(f"it takes {_format_count(parameters)}, and is given {len(call.arguments)}", argument)
        name = argument.name if argument.name is not None else list(parameters)[index]
        if name not in parameters:
            raise build_problem(f"it has no parameter {name}", argument)
        if name in bound:
            raise build_problem(f"{name} is given twice", argument)
        bound[name] = argument
    missing = [p.name for p in function.parameters if p.name not in bound and p.default is None]
    if missing:
        raise build_problem(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return {name: bound.get(name) for name in parameters}


def format_signature(function: Function) -> str:
    """How a function is called: `net(amount DECIMAL(10,2), rate DOUBLE = 0.2)`."""
    parts = [
        " ".join(x for x in (p.name, p.type) if x) + (f" = {p.default}" if p.default is not None else "")
        for p in function.parameters
    ]
    rest = ["…"] if isinstance(function, PythonFunction) and function.is_variadic else []
    return f"{function.name}({', '.join([*parts, *rest])})"


def _format_count(parameters: Collection[str]) -> str:
    return f"{len(parameters)} argument{'' if len(parameters) == 1 else 's'}" if parameters else "no arguments"


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A run of the result: its text, where it came from, and the kind that a reference at its beginning must have."""

    text: str
    origin: int
    origin_end: int
    is_copied: bool = False
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
    call_site: tuple[int, int] = (0, 0)
    renamed: Mapping[str, str] = field(default_factory=dict)
    # What stands for each parameter; a parameter that is not here keeps its name.
    arguments: Mapping[str, list[_Chunk]] = field(default_factory=dict)

    def copy(self, start: int, end: int) -> list[_Chunk]:
        """A part of the text as it is."""
        if start >= end:
            return []
        if self.model is None:
            return [self.make_chunk(self.text[start:end])]
        pieces = self.model.pieces
        marks = {p.at for p in pieces} | set(self.model.forced)
        edges = [start, *sorted(m for m in marks if start < m < end), end]
        return [self._copy_run(self.model, a, b) for a, b in pairwise(edges)]

    def _copy_run(self, model: Expanded, start: int, end: int) -> _Chunk:
        origin, piece = trace_offset(model.pieces, start), find_piece(model.pieces, start)
        copied = piece is None or piece.is_copied
        last = origin + end - start if piece is None or copied else piece.origin_end
        return _Chunk(self.text[start:end], origin, last, copied, forced=model.forced.get(start))

    def make_chunk(self, text: str, forced: str | None = None) -> _Chunk:
        """Text that stands for the call that this is the body of."""
        return _Chunk(text, *self.call_site, within=self.function, forced=forced)

    def find_call_site(self, call: Call) -> tuple[int, int]:
        if self.model is None:
            return self.call_site
        return trace_offset(self.model.pieces, call.start), trace_offset(self.model.pieces, call.end - 1) + 1


@dataclass(frozen=True, slots=True)
class InlinedQuery:
    """A text without calls of SQL functions, and the functions that it uses, each once."""

    expanded: Expanded
    functions: tuple[str, ...]


def inline_calls(expanded: Expanded, calls: Calls, functions: Mapping[str, Function]) -> InlinedQuery:
    """The text with its calls replaced; a `CallProblem`, placed in the text, when one cannot be."""
    inliner = _Inliner(functions)
    chunks = inliner.replace_calls(_Source(expanded.text, calls, expanded), 0, len(expanded.text))
    pieces: list[Piece] = []
    forced: dict[int, str] = {}
    length = 0
    for chunk in chunks:
        if chunk.forced:
            forced[length] = chunk.forced
        pieces.append(Piece(length, chunk.origin, chunk.origin_end, chunk.is_copied, chunk.within))
        length += len(chunk.text)
    text = "".join(chunk.text for chunk in chunks)
    return InlinedQuery(
        replace(expanded, text=text, pieces=tuple(pieces), forced=forced), tuple(inliner.used_functions)
    )


class _Inliner:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self.nondeterministic = NONDETERMINISTIC | {
            f.name for f in functions.values() if isinstance(f, PythonFunction) and not f.deterministic
        }
        self.used_functions: dict[str, None] = {}
        self.length = 0

    def replace_calls(self, source: _Source, start: int, end: int) -> list[_Chunk]:
        """A part of a text with everything in it that stands for something else replaced."""
        out: list[_Chunk] = []
        position = start
        for at, last, chunks in self._list_edits(source, start, end):
            if at < position:
                continue
            out += [*source.copy(position, at), *chunks()]
            position = last
        return [*out, *source.copy(position, end)]

    def _list_edits(
        self, source: _Source, start: int, end: int
    ) -> Iterable[tuple[int, int, Callable[[], list[_Chunk]]]]:
        """What is replaced in a part of a text, by place; of two at one place the wider first."""
        edits: list[tuple[int, int, Callable[[], list[_Chunk]]]] = []
        for call in source.calls.calls:
            function = self.functions.get(call.name)
            _refuse_place(call, function)
            if function is None:  # it was reported as wrong
                continue
            self.used_functions.setdefault(function.name)
            if isinstance(function, SqlFunction):
                edits.append((call.start, call.end, partial(self._replace_call, source, call, function)))
            else:
                bind_arguments(call, function)
        if source.body is not None:
            edits += [
                (u.start, u.end, partial(_replace_argument, source, u))
                for u in source.body.uses
                if u.parameter in source.arguments
            ]
            edits += [
                (t.start, t.end, partial(_replace_table, source, t.parts[0], t.kind))
                for t in source.body.tables
                if len(t.parts) == 1
            ]
            edits += [(t.start, t.end, partial(_replace_word, source, name)) for t, name in _iter_renames(source)]
        elif source.model is not None:
            edits += [
                (at, at, partial(_replace_word, source, f" AS {quote(name)}")) for at, name in source.calls.unnamed
            ]
        edits_inside = [e for e in edits if start <= e[0] and e[1] <= end]
        return sorted(edits_inside, key=lambda e: (e[0], -e[1]))

    def _replace_call(self, source: _Source, call: Call, function: SqlFunction) -> list[_Chunk]:
        arguments: dict[str, list[_Chunk]] = {}
        site = source.find_call_site(call)
        for name, argument in bind_arguments(call, function).items():
            parameter = next(p for p in function.parameters if p.name == name)
            if argument is not None:
                arguments[name] = self.replace_calls(source, argument.start, argument.end)
                self._refuse_argument(call, argument, function, name, _join_text(arguments[name]))
            else:
                default = _Source(parameter.default or "", parameter.default_calls, None, None, function.name, site)
                arguments[name] = self.replace_calls(default, 0, len(default.text))
        try:
            chunks = self._build_body(function, arguments, site)
        except CallProblem as problem:
            # It is in the body; what its author can do is to give it other arguments.
            raise CallProblem(problem.message, call.start, call.end, problem.hint) from problem
        self.length += sum(len(chunk.text) for chunk in chunks)
        if self.length > _MAX_LENGTH:
            raise CallProblem(
                f"{function.name} makes the query too long: functions use what they are given more than once",
                call.start,
                call.end,
                "compute the argument in a CTE first",
            )
        return chunks

    def _build_body(
        self, function: SqlFunction, arguments: dict[str, list[_Chunk]], site: tuple[int, int]
    ) -> list[_Chunk]:
        types = {p.name: p.type for p in function.parameters}
        cast = {n: _wrap_in_cast(chunks, types[n], site, function.name) for n, chunks in arguments.items()}
        source = _Source(function.text, function.calls, None, function.body, function.name, site)
        if function.body.has_subquery:
            inner = _bind_as_subquery(source, cast, self.replace_calls(source, 0, len(function.text)))
            self._refuse_row_functions(function, inner)
        else:
            source = replace(source, arguments=cast, renamed=_choose_new_names(function.body, arguments))
            inner = [source.make_chunk("("), *self.replace_calls(source, 0, len(function.text)), source.make_chunk(")")]
        return _wrap_in_cast(inner, function.returns, site, function.name) if function.returns else inner

    def _refuse_row_functions(self, function: SqlFunction, chunks: list[_Chunk]) -> None:
        """Refuse what Spark would ask once, in the place of once for each row."""
        for name in _list_called_functions(_join_text(chunks)):
            if name in self.nondeterministic | ROW_METADATA:
                raise CallProblem(
                    f"{function.name} has a subquery, in which {name}() would not be asked for each row",
                    0,
                    1,
                    "compute it in a CTE first, and give the function that column",
                )

    def _refuse_argument(self, call: Call, argument: Argument, function: SqlFunction, name: str, text: str) -> None:
        """Refuse an argument of which more than its value would matter."""
        nondeterministic = next((name for name in _list_called_functions(text) if name in self.nondeterministic), None)
        uses = [u for u in function.body.uses if u.parameter == name]
        if nondeterministic is not None and uses and not (len(uses) == 1 and uses[0].is_used_once):
            raise CallProblem(
                f"{nondeterministic}() gives something else each time,"
                f" and {function.name} may use {name} more than once",
                argument.start,
                argument.end,
                f"compute it in a CTE first, and give {function.name} that column",
            )
        if function.body.has_subquery and _has_many_row_functions(tokenize_code(text)):
            raise CallProblem(
                f"{function.name} has a subquery, which cannot be given an aggregate or a window function",
                argument.start,
                argument.end,
                f"compute it in a CTE first, and give {function.name} that column",
            )


def _refuse_place(call: Call, function: Function | None) -> None:
    """Refuse a value where a table belongs, and a table where a value does."""
    is_table = isinstance(function, PythonFunction) and function.is_table
    if call.as_table and not is_table:
        raise CallProblem(f"{call.name} returns one value, but is read as a table", call.start, call.end)
    if is_table and not call.as_table:
        raise CallProblem(
            f"{call.name} is a table function, but is not read as a table",
            call.start,
            call.end,
            f"read it as a table: FROM {call.name}(…), or FROM t, LATERAL {call.name}(t.x)",
        )


def _list_called_functions(text: str) -> list[str]:
    """The functions that a text calls, in lower case."""
    pairs = pairwise(tokenize_code(text))
    return [strip_quotes(t).lower() for t, after in pairs if t.kind in ("word", "quoted") and after.text == "("]


def _join_text(chunks: Iterable[_Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def _replace_argument(source: _Source, use: Use) -> list[_Chunk]:
    return source.arguments[use.parameter]


def _replace_table(source: _Source, name: str, kind: str | None) -> list[_Chunk]:
    """A table of the body under a name that no CTE of the model has."""
    return [source.make_chunk(quote(SCOPE, name), kind)]


def _replace_word(source: _Source, text: str) -> list[_Chunk]:
    return [source.make_chunk(text)]


def _wrap_in_cast(chunks: list[_Chunk], kind: str, site: tuple[int, int], function: str) -> list[_Chunk]:
    return [
        _Chunk("CAST(", *site, within=function),
        *chunks,
        _Chunk(f" AS {kind})", *site, within=function),
    ]


def _bind_as_subquery(source: _Source, arguments: Mapping[str, list[_Chunk]], body: list[_Chunk]) -> list[_Chunk]:
    """A body over one row with the arguments as columns, which see nothing but the query around the call."""
    if not arguments:
        return [source.make_chunk("(SELECT ("), *body, source.make_chunk("))")]
    out = [source.make_chunk("(SELECT ("), *body, source.make_chunk(") FROM (SELECT ")]
    if len(arguments) == 1:
        ((name, chunks),) = arguments.items()
        return [*out, *chunks, source.make_chunk(f" AS {quote(name)}) AS {quote(source.function)})")]
    # The columns get their names one query further out: within one, a name could mean the column before it.
    names = ", ".join(f"__sqb_{i} AS {quote(name)}" for i, name in enumerate(arguments))
    out.append(source.make_chunk(f"{names} FROM (SELECT "))
    for index, chunks in enumerate(arguments.values()):
        out += [*([source.make_chunk(", ")] if index else []), *chunks, source.make_chunk(f" AS __sqb_{index}")]
    return [*out, source.make_chunk(f")) AS {quote(source.function)})")]


def _choose_new_names(body: Body, arguments: Mapping[str, list[_Chunk]]) -> dict[str, str]:
    """Other names for variables of lambdas that would catch a name in an argument."""
    used = {
        strip_quotes(t).lower()
        for chunks in arguments.values()
        for t in tokenize_code(_join_text(chunks))
        if t.kind in ("word", "quoted")
    }
    new_names: dict[str, str] = {}
    for variable in body.variables:
        if variable.name in used:
            number = 1
            while f"{variable.name}_{number}" in used | {v.name for v in body.variables}:
                number += 1
            new_names[variable.name] = quote(f"{variable.name}_{number}")
    return new_names


def _iter_renames(source: _Source) -> Iterable[tuple[Token, str]]:
    if not source.renamed or source.body is None:
        return
    tokens = tokenize_code(source.text)
    for index, token in enumerate(tokens):
        name = strip_quotes(token).lower() if token.kind in ("word", "quoted") else ""
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if name not in source.renamed or called or (index and tokens[index - 1].text == "."):
            continue
        if any(v.name == name and v.start <= token.start < v.end for v in source.body.variables):
            yield token, source.renamed[name]


def _has_many_row_functions(tokens: Sequence[Token]) -> bool:
    """Whether an expression aggregates or uses a window, outside of subqueries of its own."""
    index = 0
    while index < len(tokens):
        after = tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
        if tokens[index].text == "(" and after in ("SELECT", "WITH"):
            index = find_closing(list(tokens), index) or len(tokens)
        word = tokens[index] if index < len(tokens) else None
        called = word is not None and word.kind == "word" and after == "("
        if word is not None and called and (word.text.upper() == "OVER" or word.text.lower() in _MANY_ROWS):
            return True
        index += 1
    return False
