"""`functions/*.sql`: scalar functions in Spark's own words, `CREATE FUNCTION f(x INT) RETURNS INT RETURN …`.

The statement is read on tokens; `compile.functions` reads its body.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqb.errors.project import BadFunction
from sqb.light_dataclass import dataclass
from sqb.names import At, locate_offset, suggest_nearest
from sqb.sql.functions.builtins import BUILT_IN
from sqb.sql.text.expand import Expanded
from sqb.sql.text.keywords import BEFORE_BRACKETS
from sqb.sql.text.lexer import Token, find_closing, strip_quotes, tokenize_code
from sqb.types.format import format_sql_type
from sqb.types.parse import parse_declared_type

_FORM = "write CREATE FUNCTION name(x INT) RETURNS INT RETURN <expression>"
# What may be between the parameters and RETURN, and means nothing for a result.
_CLAUSES: tuple[tuple[str, ...], ...] = (
    ("LANGUAGE", "SQL"),
    ("CONTAINS", "SQL"),
    ("READS", "SQL", "DATA"),
    ("CALLED", "ON", "NULL", "INPUT"),
    ("DETERMINISTIC",),
    ("NOT", "DETERMINISTIC"),
)
_QUERY_STARTS = frozenset(["SELECT", "WITH", "FROM", "VALUES", "TABLE"])
_OPEN, _CLOSE = ("(", "[", "{", "<"), (")", "]", "}", ">")


@dataclass(frozen=True, slots=True)
class WrittenParameter:
    """A parameter as it is declared: its name in lower case, its type, and the span of its default."""

    name: str
    type: str
    default: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class WrittenFunction:
    """A function as it is declared; offsets are those of the expanded text."""

    name: str
    file: str
    text: str
    expanded: Expanded
    parameters: tuple[WrittenParameter, ...]
    returns: str | None
    deterministic: bool
    start: int
    end: int
    # RETURN SELECT …, without brackets around it.
    query: bool

    @property
    def body(self) -> str:
        body = self.expanded.text[self.start : self.end]
        return f"({body})" if self.query else body

    @property
    def body_start(self) -> int:
        """The offset of the expanded text at which the body's first character is."""
        return self.start - self.query

    def locate(self, start: int, end: int) -> At:
        """Where something of the expanded text is in the file."""
        return locate_offset(self.text, self.expanded.trace_origin(start), self.file, max(1, end - start))


def derive_name(path: str) -> str:
    """The name that a function has by its file."""
    return path.rpartition("/")[2].rpartition(".")[0]


def read_function(path: str, text: str, expanded: Expanded) -> WrittenFunction:
    """The function that a file declares; raises `BadFunction`."""
    return _Reader(path, text, expanded).read()


def refuse_name(name: str, at: At) -> None:
    """Refuse a name that Spark has a meaning for already."""
    if name.lower() in BUILT_IN:
        raise BadFunction(
            f"{name} is a function of Spark's own", at=at, hint=f"give it another name, for instance my_{name.lower()}"
        )
    if name.upper() in BEFORE_BRACKETS:
        raise BadFunction(f"{name} is a word of SQL", at=at, hint="give it another name")


class _Reader:
    def __init__(self, path: str, text: str, expanded: Expanded) -> None:
        self.path, self.text, self.expanded = path, text, expanded
        self.tokens = tokenize_code(expanded.text)
        while self.tokens and self.tokens[-1].text == ";":
            self.tokens.pop()
        self.index = 0

    def build_error(self, message: str, token: Token | None = None, hint: str | None = _FORM) -> BadFunction:
        token = token or (self.tokens[min(self.index, len(self.tokens) - 1)] if self.tokens else None)
        if token is None:
            return BadFunction(message, at=At(self.path), hint=hint)
        at = locate_offset(self.text, self.expanded.trace_origin(token.start), self.path, token.end - token.start)
        return BadFunction(message, at=at, hint=hint)

    def peek_word(self, ahead: int = 0) -> str:
        index = self.index + ahead
        return self.tokens[index].text.upper() if index < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """Whether these words come next; they are passed then."""
        if [self.peek_word(i) for i in range(len(words))] != list(words):
            return False
        self.index += len(words)
        return True

    def read(self) -> WrittenFunction:
        self._refuse_broken()
        self._read_create()
        name = self._read_name()
        parameters = self._read_parameters()
        returns = self._read_returns()
        deterministic = self._read_clauses()
        if self.index >= len(self.tokens):
            raise self.build_error("nothing follows RETURN", self.tokens[-1])
        first, last = self.tokens[self.index], self.tokens[-1]
        second = next((t for t in self.tokens[self.index :] if t.text == ";"), None)
        if second is not None:
            raise self.build_error("a second statement begins here", second, "keep one function per file")
        return WrittenFunction(
            name,
            self.path,
            self.text,
            self.expanded,
            parameters,
            returns,
            deterministic,
            first.start,
            last.end,
            first.kind == "word" and first.text.upper() in _QUERY_STARTS,
        )

    def _refuse_broken(self) -> None:
        broken = next((t for t in self.tokens if t.kind == "broken"), None)
        if broken is not None:
            raise self.build_error(f"this {broken.text[:2]} is never closed", broken, None)
        if not self.tokens:
            raise self.build_error("there is no function")

    def _read_create(self) -> None:
        if not self.take("CREATE"):
            raise self.build_error("a function file holds one CREATE FUNCTION")
        self.take("OR", "REPLACE")
        _ = self.take("TEMPORARY") or self.take("TEMP")
        if not self.take("FUNCTION"):
            raise self.build_error("FUNCTION is expected here")
        self.take("IF", "NOT", "EXISTS")

    def _read_name(self) -> str:
        token = self.tokens[self.index] if self.index < len(self.tokens) else self.tokens[-1]
        if token.kind not in ("word", "quoted"):
            raise self.build_error("the function's name is expected here")
        if self.peek_word(1) == ".":
            raise self.build_error("a function has no schema", token, "write its name alone")
        name, expected = strip_quotes(token), derive_name(self.path)
        if name.lower() != expected.lower():
            raise self.build_error(
                f"the function {name} is in a file called {expected}.sql",
                token,
                f"rename one of the two: a function is called as its file, functions/{name}.sql",
            )
        at = locate_offset(self.text, self.expanded.trace_origin(token.start), self.path, token.end - token.start)
        refuse_name(name, at)
        self.index += 1
        return name.lower()

    def _read_parameters(self) -> tuple[WrittenParameter, ...]:
        if self.peek_word() == "AS" or self.peek_word() == "USING":
            raise self.build_error(
                "sqb does not support functions in Java", hint="write a SQL function, or one in Python"
            )
        if self.peek_word() != "(":
            raise self.build_error("the parameters are expected here")
        end = find_closing(self.tokens, self.index)
        if end is None:
            raise self.build_error("this ( is never closed")
        inside = self.tokens[self.index + 1 : end]
        self.index = end + 1
        parameters: list[WrittenParameter] = []
        for part in _split_commas(inside) if inside else ():
            parameter = self._read_parameter(part, inside)
            if any(p.name == parameter.name for p in parameters):
                raise self.build_error(f"the parameter {parameter.name} is declared twice", part[0], None)
            if parameter.default is None and parameters and parameters[-1].default is not None:
                hint = "parameters with a default come last"
                raise self.build_error(f"{parameter.name} has no default and follows one that has", part[0], hint)
            parameters.append(parameter)
        return tuple(parameters)

    def _read_parameter(self, part: Sequence[Token], inside: Sequence[Token]) -> WrittenParameter:
        if len(part) < 2 or part[0].kind not in ("word", "quoted"):
            raise self.build_error("a parameter is a name and a type", part[0] if part else inside[0])
        default = comment = len(part)
        for index, token in enumerate(part):
            word = token.text.upper() if token.kind == "word" else ""
            default = min(default, index) if word == "DEFAULT" and index > 1 else default
            comment = min(comment, index) if word == "COMMENT" and index > 1 else comment
        kind = self._read_type(part[1 : min(default, comment)] or part[:1])
        span = None
        if default < len(part):
            value = part[default + 1 : comment if comment > default else len(part)]
            if not value:
                raise self.build_error("nothing follows DEFAULT", part[default])
            span = (value[0].start, value[-1].end)
        return WrittenParameter(strip_quotes(part[0]).lower(), kind, span)

    def _read_type(self, part: Sequence[Token]) -> str:
        written = self.expanded.text[part[0].start : part[-1].end]
        kind = parse_declared_type(written)
        first = part[0].text.upper()
        if first in ("VARCHAR", "CHAR", "CHARACTER"):
            raise self.build_error(f"{first} is not a type that a function can have", part[0], "write STRING")
        if kind is None:
            names = ("INT", "BIGINT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(10,2)", "ARRAY<INT>")
            raise self.build_error(f"there is no type {written}", part[0], suggest_nearest(written, names))
        return format_sql_type(kind)

    def _read_returns(self) -> str | None:
        if not self.take("RETURNS"):
            return None
        if self.peek_word() == "TABLE":
            raise self.build_error(
                "sqb does not support SQL functions that return a table", hint="write a model instead"
            )
        begin, depth = self.index, 0
        while self.index < len(self.tokens):
            text = self.tokens[self.index].text
            if depth == 0 and self.index > begin and self._is_type_end():
                break
            depth += _measure_depth(text)
            self.index += 1
        if self.index == begin:
            raise self.build_error("the type that it returns is expected here")
        return self._read_type(self.tokens[begin : self.index])

    def _is_type_end(self) -> bool:
        starts = {"RETURN", "COMMENT", "SPECIFIC", "SQL", "NO", "MODIFIES", "RETURNS", *(c[0] for c in _CLAUSES)}
        return self.tokens[self.index].kind == "word" and self.peek_word() in starts

    def _read_clauses(self) -> bool:
        """Pass what is before RETURN; whether the function is declared deterministic."""
        deterministic = True
        while not self.take("RETURN"):
            if self.index >= len(self.tokens):
                raise self.build_error("RETURN is missing", self.tokens[-1])
            if self.take("COMMENT"):
                if self.index >= len(self.tokens) or self.tokens[self.index].kind != "string":
                    raise self.build_error("a text in quotes is expected after COMMENT")
                self.index += 1
                continue
            clause = next((c for c in _CLAUSES if self.take(*c)), None)
            if clause is None:
                raise self.build_error(f"{self.tokens[self.index].text} is not understood here")
            deterministic = deterministic and clause != ("NOT", "DETERMINISTIC")
        return deterministic


def _measure_depth(text: str) -> int:
    if text in (">>", ">>>"):
        return -len(text)
    return (text in _OPEN) - (text in _CLOSE)


def _split_commas(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Tokens between commas, of which those in the brackets of a type do not count."""
    parts: list[Sequence[Token]] = []
    depth, begin, value = 0, 0, False
    for index, token in enumerate(tokens):
        value = value or token.text.upper() == "DEFAULT"
        # In a value `<` compares.
        depth += 0 if value and token.text.strip("<>") == "" else _measure_depth(token.text)
        if token.text == "," and depth == 0:
            parts.append(tokens[begin:index])
            begin, value = index + 1, False
    return [*parts, tokens[begin:]]
