"""The arguments of a written check, taken one after the other; what does not fit is reported in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

from sqb.checks.model import ComparedColumns, RelationRead, RequiredColumn
from sqb.light_dataclass import dataclass
from sqb.names import At, parse_duration, quote
from sqb.sql.text.lexer import Token, tokenize_code
from sqb.types.classes import is_time
from sqb.types.model import Type
from sqb.types.parse import parse_declared_type

OPERATORS: Mapping[str, str] = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TYPED = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz"})
_MOMENTS = frozenset({"epoch", "now", "today", "tomorrow", "yesterday"})
_TIME_HINT = "write DATE '2026-01-31' or TIMESTAMP '2026-01-31 12:00:00'"
_QUOTED = "a name with other characters is written in backticks"
_ENDINGS = ("bd", "l", "s", "y", "f", "d")


class BadArgument(Exception):
    """Something about a check's arguments is wrong."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class Lookup(Protocol):
    """What a check may ask beyond its own text; both raise `Wrong`."""

    def find_columns(self, text: str) -> tuple[str, ...]:
        """The columns that a SQL expression uses."""
        ...

    def expand_calls(self, text: str) -> tuple[str, Mapping[str, str]]:
        """An expression with the project's functions in it, and the hashes of those that Spark calls."""
        ...

    def read_golden(self, file: str, at: At) -> tuple[tuple[str, ...], str]:
        """The columns and the content hash of a CSV file that is named at a place."""
        ...


@dataclass(frozen=True, slots=True)
class Literal:
    """A written value: its SQL, and which types of column it can be compared with."""

    sql: str
    takes: str
    number: Decimal | None = None
    text: str | None = None
    column: str | None = None


class Arguments:
    """Reads arguments in order and remembers the columns, relations and files that they name."""

    def __init__(self, written: Sequence[str], at: At, lookup: Lookup) -> None:
        self.left = list(written)
        self.at, self.lookup = at, lookup
        self.needs: list[RequiredColumn] = []
        self.reads: list[RelationRead] = []
        self.alike: list[ComparedColumns] = []
        self.patterns: list[str] = []
        self.conditions: list[str] = []
        self.files: list[str] = []
        self.facts: dict[str, Any] = {}

    def take(self, what: str) -> str:
        """The next argument as written."""
        if not self.left:
            raise BadArgument(f"{what} is missing")
        return self.left.pop(0)

    def refuse_rest(self) -> None:
        """Refuse arguments that the check did not take."""
        if self.left:
            raise BadArgument(f"`{self.left[0]}` is an argument too many")

    def take_name(self, what: str = "the column") -> str:
        """The next argument as the name of a column, without saying what is needed of it."""
        text = self.take(what)
        name = _parse_column(text)
        if name is None:
            hint = f"a field is looked at with check({text} IS NOT NULL) or the like" if _parse_path(text) else _QUOTED
            raise BadArgument(f"`{text}` is not the name of a column", hint)
        return name

    def take_column(self, takes: str = "any", what: str = "the column") -> str:
        """The next argument as a column, quoted for SQL."""
        name = self.take_name(what)
        self.require_column(name, takes)
        return quote(name)

    def take_columns(self, takes: str = "comparable", least: int = 1) -> list[str]:
        """All arguments that are left, as columns."""
        columns = [self.take_column(takes) for _ in range(max(least, len(self.left)))]
        if len({name.lower() for name in columns}) < len(columns):
            raise BadArgument("a column is named twice")
        return columns

    def require_column(self, column: str, takes: str) -> None:
        """Remember that the check works on a column."""
        self.needs.append(RequiredColumn(column, takes))

    def record_comparison(self, column: str, value: Literal) -> None:
        """Remember that the check compares a column with a value or with another column."""
        self.needs.append(RequiredColumn(column, value.takes, value.text))
        if value.column is not None:
            self.alike.append(ComparedColumns(column, value.column))

    def take_operator(self) -> str:
        """The next argument as a comparison."""
        text = self.take("the operator")
        operator = OPERATORS.get(text.strip())
        if operator is None:
            raise BadArgument(f"`{text}` is not an operator", "operators are =, <>, <, <=, > and >=")
        return operator

    def take_literal(self, what: str = "the value") -> Literal:
        """The next argument as a written value."""
        return _parse_literal(self.take(what))

    def take_literal_or_column(self) -> Literal:
        """The next argument as a written value, or another column."""
        text = self.take("the value")
        name = _parse_column(text)
        if name is not None and text.lower() not in ("true", "false", "null"):
            self.require_column(name, "comparable")
            return Literal(quote(name), "comparable", column=name)
        return _parse_literal(text)

    def take_number(self, what: str = "the number") -> Decimal:
        """The next argument as a number."""
        text = self.take(what)
        number = _parse_number(tokenize_code(text))
        if number is None:
            raise BadArgument(f"`{text}` is not a number")
        return number

    def take_whole_number(self, what: str = "the number") -> int:
        """The next argument as a whole number from 0."""
        text = self.take(what)
        number = _parse_number(tokenize_code(text))
        if number is None or number != number.to_integral_value() or number < 0:
            raise BadArgument(f"`{text}` is not a whole number")
        return int(number)

    def take_percent(self, what: str = "the percentage") -> Decimal:
        """The next argument as a percentage: `5` and `5%` are the same."""
        text = self.take(what)
        number = _parse_number(tokenize_code(text.strip().removesuffix("%")))
        if number is None or number < 0:
            raise BadArgument(f"`{text}` is not a percentage", "write 5 or 5% for five percent")
        return number

    def take_duration(self) -> float:
        """The next argument as seconds."""
        text = self.take("the duration")
        seconds = parse_duration(_unquote(text) if text[:1] in ("'", '"') else text)
        if seconds is None:
            raise BadArgument(f"`{text}` is not a duration", "write 90m, 24h or 1d12h")
        return seconds

    def take_text(self, what: str) -> str:
        """The next argument as text in quotes, exactly as it stands there: backslashes are just backslashes."""
        text = self.take(what)
        tokens = tokenize_code(text)
        if len(tokens) != 1 or tokens[0].kind != "string" or text[0] in "xX":
            raise BadArgument(f"`{text}` is not a text in quotes")
        body = text[1:] if text[0] in "rR" else text
        return body[1:-1].replace(body[0] * 2, body[0])

    def take_type(self) -> Type:
        """All arguments that are left as one type, which may hold commas: `map<string, int>`."""
        text = ", ".join([self.take("the type"), *self.left])
        self.left.clear()
        kind = parse_declared_type(text)
        if kind is None:
            raise BadArgument(
                f"there is no type `{text}`", "a type is int, decimal(10,2), date, array<string> or the like"
            )
        return kind

    def take_expression(self, what: str = "the condition") -> str:
        """The next argument as a SQL expression over the model's columns."""
        written = self.take(what)
        text, python = self.lookup.expand_calls(written)
        columns = self.lookup.find_columns(text)
        self.facts[text] = list(columns)
        if text != written or python:
            self.facts[f"called {written}"] = [text, dict(python)]
        for column in columns:
            self.require_column(column, "any")
        # The line break ends a comment that the expression may end in.
        condition = f"({text}\n)" if "--" in text else f"({text})"
        self.conditions.append(condition)
        return condition

    def take_relation(self, *columns: str) -> str:
        """The next argument as the name of another relation."""
        text = self.take("the relation")
        parts = _parse_path(text)
        if parts is None:
            raise BadArgument(f"`{text}` is not the name of a relation")
        return self._record_read(parts, columns)

    def take_relation_column(self, column: str) -> tuple[str, str]:
        """The next argument as a relation with the column that `column` is compared with: its name and that, quoted."""
        text = self.take("the relation and its column")
        parts = _parse_path(text)
        if parts is None or len(parts) < 2:
            raise BadArgument(
                f"`{text}` is not a column of a relation", "write the relation and its column: customers.id"
            )
        relation = self._record_read(parts[:-1], (parts[-1],))
        self.alike.append(ComparedColumns(column, parts[-1], relation))
        return relation, quote(parts[-1])

    def _record_read(self, parts: Sequence[str], columns: Sequence[str]) -> str:
        name = ".".join(parts)
        self.reads.append(RelationRead(name, self.at, tuple(columns)))
        return name

    def take_golden(self) -> tuple[str, tuple[str, ...]]:
        """The next argument as a CSV file of the project, and its columns."""
        text = self.take("the file")
        file = text[1:-1] if text[:1] in ("'", '"') and text[-1:] == text[:1] else text
        columns, digest = self.lookup.read_golden(file, self.at)
        self.facts[file] = [list(columns), digest]
        self.files.append(file)
        for column in columns:
            self.require_column(column, "flat")
        return file, columns


def _unquote(text: str) -> str:
    """What is in a text in quotes, near enough to tell whether it is a date."""
    body = text[1:] if text[0] in "rR" else text
    return body[1:-1]


def _parse_column(text: str) -> str | None:
    parts = _parse_path(text)
    return parts[0] if parts is not None and len(parts) == 1 else None


def _parse_path(text: str) -> list[str] | None:
    """The parts of a dotted name; None when the text is not one."""
    tokens = tokenize_code(text)
    names, dots = tokens[::2], tokens[1::2]
    if not names or len(names) != len(dots) + 1 or any(dot.text != "." for dot in dots):
        return None
    if any(name.kind not in ("word", "quoted") for name in names) or tokens[0].start or tokens[-1].end != len(text):
        return None
    return [name.text[1:-1].replace("``", "`") if name.kind == "quoted" else name.text for name in names]


def _parse_number(tokens: Sequence[Token]) -> Decimal | None:
    signs = 1 if tokens and tokens[0].text in ("+", "-") else 0
    if len(tokens) != signs + 1 or tokens[-1].kind != "number":
        return None
    text = tokens[-1].text.lower()
    ending = next((e for e in _ENDINGS if text.endswith(e)), "")
    try:
        value = Decimal(text.removesuffix(ending))
    except InvalidOperation:
        return None
    return -value if tokens[0].text == "-" else value


def _parse_literal(text: str) -> Literal:
    tokens = tokenize_code(text)
    words = [token.text.lower() for token in tokens]
    if (number := _parse_number(tokens)) is not None:
        return Literal(f"({text})" if words[0] == "-" else text, "number", number)
    match tokens:
        case [Token(kind="string")] if words[0][0] != "x":
            return Literal(text, "text or time", text=_unquote(text))
        case [Token(kind="word")] if words[0] in ("true", "false"):
            return Literal(words[0].upper(), "boolean")
        case [Token(kind="word"), Token(kind="string", text=written)] if words[0] in _TYPED:
            if not is_time(_unquote(written)) and _unquote(written).strip().lower() not in _MOMENTS:
                raise BadArgument(f"{written} is not a {'date' if words[0] == 'date' else 'timestamp'}", _TIME_HINT)
            return Literal(text, "time")
    if words == ["null"]:
        raise BadArgument("NULL is not a value to compare with", "not_null(column) refuses NULL")
    raise BadArgument(
        f"`{text}` is not a value", "a value is a number, a text in quotes, true, false or DATE '2026-01-31'"
    )
