"""The arguments of a written check, taken one after the other; what does not fit is said in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

from sqb.checks.types import is_time
from sqb.checks.values import Alike, Need, Read
from sqb.names import At, duration_seconds, quote
from sqb.project.column_types import Type, parse_type
from sqb.sql.lexer import Token, code

OPERATORS: Mapping[str, str] = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TYPED = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz"})
_MOMENTS = frozenset({"epoch", "now", "today", "tomorrow", "yesterday"})
_TIME_HINT = "write DATE '2026-01-31' or TIMESTAMP '2026-01-31 12:00:00'"
_QUOTED = "a name with other characters is written in backticks"
_ENDINGS = ("bd", "l", "s", "y", "f", "d")


class Wrong(Exception):
    """Something about a check's arguments is wrong."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class Lookup(Protocol):
    """What a check may ask beyond its own text; both raise `Wrong`."""

    def expression(self, text: str) -> tuple[str, ...]:
        """The columns that a SQL expression uses."""
        ...

    def called(self, text: str) -> tuple[str, Mapping[str, str]]:
        """An expression with the project's functions in it, and the hashes of those that Spark calls."""
        ...

    def golden(self, file: str, at: At) -> tuple[tuple[str, ...], str]:
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
        self.needs: list[Need] = []
        self.reads: list[Read] = []
        self.alike: list[Alike] = []
        self.patterns: list[str] = []
        self.conditions: list[str] = []
        self.files: list[str] = []
        self.facts: dict[str, Any] = {}

    def take(self, what: str) -> str:
        """The next argument as written."""
        if not self.left:
            raise Wrong(f"{what} is missing")
        return self.left.pop(0)

    def end(self) -> None:
        """Refuse arguments that nobody took."""
        if self.left:
            raise Wrong(f"`{self.left[0]}` is an argument too many")

    def name(self, what: str = "the column") -> str:
        """The next argument as the name of a column, without saying what is needed of it."""
        text = self.take(what)
        name = _column(text)
        if name is None:
            hint = f"a field is looked at with check({text} IS NOT NULL) or the like" if _path(text) else _QUOTED
            raise Wrong(f"`{text}` is not the name of a column", hint)
        return name

    def column(self, takes: str = "any", what: str = "the column") -> str:
        """The next argument as a column, quoted for SQL."""
        name = self.name(what)
        self.need(name, takes)
        return quote(name)

    def columns(self, takes: str = "comparable", least: int = 1) -> list[str]:
        """All arguments that are left, as columns."""
        found = [self.column(takes) for _ in range(max(least, len(self.left)))]
        if len({name.lower() for name in found}) < len(found):
            raise Wrong("a column is named twice")
        return found

    def need(self, column: str, takes: str) -> None:
        """Remember that the check works on a column."""
        self.needs.append(Need(column, takes))

    def compares(self, column: str, value: Literal) -> None:
        """Remember that the check compares a column with a value or with another column."""
        self.needs.append(Need(column, value.takes, value.text))
        if value.column is not None:
            self.alike.append(Alike(column, value.column))

    def operator(self) -> str:
        """The next argument as a comparison."""
        text = self.take("the operator")
        found = OPERATORS.get(text.strip())
        if found is None:
            raise Wrong(f"`{text}` is not an operator", "operators are =, <>, <, <=, > and >=")
        return found

    def literal(self, what: str = "the value") -> Literal:
        """The next argument as a written value."""
        return _literal(self.take(what))

    def literal_or_column(self) -> Literal:
        """The next argument as a written value, or another column."""
        text = self.take("the value")
        name = _column(text)
        if name is not None and text.lower() not in ("true", "false", "null"):
            self.need(name, "comparable")
            return Literal(quote(name), "comparable", column=name)
        return _literal(text)

    def number(self, what: str = "the number") -> Decimal:
        """The next argument as a number."""
        text = self.take(what)
        found = _number(code(text))
        if found is None:
            raise Wrong(f"`{text}` is not a number")
        return found

    def whole_number(self, what: str = "the number") -> int:
        """The next argument as a whole number from 0."""
        text = self.take(what)
        found = _number(code(text))
        if found is None or found != found.to_integral_value() or found < 0:
            raise Wrong(f"`{text}` is not a whole number")
        return int(found)

    def percent(self, what: str = "the percentage") -> Decimal:
        """The next argument as a percentage: `5` and `5%` are the same."""
        text = self.take(what)
        found = _number(code(text.strip().removesuffix("%")))
        if found is None or found < 0:
            raise Wrong(f"`{text}` is not a percentage", "write 5 or 5% for five percent")
        return found

    def duration(self) -> float:
        """The next argument as seconds."""
        text = self.take("the duration")
        found = duration_seconds(_inside(text) if text[:1] in ("'", '"') else text)
        if found is None:
            raise Wrong(f"`{text}` is not a duration", "write 90m, 24h or 1d12h")
        return found

    def text(self, what: str) -> str:
        """The next argument as text in quotes, exactly as it stands there: backslashes are just backslashes."""
        text = self.take(what)
        found = code(text)
        if len(found) != 1 or found[0].kind != "string" or text[0] in "xX":
            raise Wrong(f"`{text}` is not a text in quotes")
        body = text[1:] if text[0] in "rR" else text
        return body[1:-1].replace(body[0] * 2, body[0])

    def type(self) -> Type:
        """All arguments that are left as one type, which may hold commas: `map<string, int>`."""
        text = ", ".join([self.take("the type"), *self.left])
        self.left.clear()
        found = parse_type(text)
        if found is None:
            raise Wrong(f"there is no type `{text}`", "a type is int, decimal(10,2), date, array<string> or the like")
        return found

    def expression(self, what: str = "the condition") -> str:
        """The next argument as a SQL expression over the model's columns."""
        written = self.take(what)
        text, python = self.lookup.called(written)
        columns = self.lookup.expression(text)
        self.facts[text] = list(columns)
        if text != written or python:
            self.facts[f"called {written}"] = [text, dict(python)]
        for column in columns:
            self.need(column, "any")
        # The line break ends a comment that the expression may end in.
        condition = f"({text}\n)" if "--" in text else f"({text})"
        self.conditions.append(condition)
        return condition

    def relation(self, *columns: str) -> str:
        """The next argument as the name of another relation."""
        text = self.take("the relation")
        parts = _path(text)
        if parts is None:
            raise Wrong(f"`{text}` is not the name of a relation")
        return self._read(parts, columns)

    def relation_column(self, column: str) -> tuple[str, str]:
        """The next argument as a relation with the column that `column` is compared with: its name and that, quoted."""
        text = self.take("the relation and its column")
        parts = _path(text)
        if parts is None or len(parts) < 2:
            raise Wrong(f"`{text}` is not a column of a relation", "write the relation and its column: customers.id")
        relation = self._read(parts[:-1], (parts[-1],))
        self.alike.append(Alike(column, parts[-1], relation))
        return relation, quote(parts[-1])

    def _read(self, parts: Sequence[str], columns: Sequence[str]) -> str:
        name = ".".join(parts)
        self.reads.append(Read(name, self.at, tuple(columns)))
        return name

    def golden(self) -> tuple[str, tuple[str, ...]]:
        """The next argument as a CSV file of the project, and its columns."""
        text = self.take("the file")
        file = text[1:-1] if text[:1] in ("'", '"') and text[-1:] == text[:1] else text
        columns, digest = self.lookup.golden(file, self.at)
        self.facts[file] = [list(columns), digest]
        self.files.append(file)
        for column in columns:
            self.need(column, "flat")
        return file, columns


def _inside(text: str) -> str:
    """What stands in a text in quotes, near enough to tell whether it is a date."""
    body = text[1:] if text[0] in "rR" else text
    return body[1:-1]


def _column(text: str) -> str | None:
    parts = _path(text)
    return parts[0] if parts is not None and len(parts) == 1 else None


def _path(text: str) -> list[str] | None:
    """The parts of a dotted name; None when the text is not one."""
    found = code(text)
    names, dots = found[::2], found[1::2]
    if not names or len(names) != len(dots) + 1 or any(dot.text != "." for dot in dots):
        return None
    if any(name.kind not in ("word", "quoted") for name in names) or found[0].start or found[-1].end != len(text):
        return None
    return [name.text[1:-1].replace("``", "`") if name.kind == "quoted" else name.text for name in names]


def _number(found: Sequence[Token]) -> Decimal | None:
    signs = 1 if found and found[0].text in ("+", "-") else 0
    if len(found) != signs + 1 or found[-1].kind != "number":
        return None
    text = found[-1].text.lower()
    ending = next((e for e in _ENDINGS if text.endswith(e)), "")
    try:
        value = Decimal(text.removesuffix(ending))
    except InvalidOperation:
        return None
    return -value if found[0].text == "-" else value


def _literal(text: str) -> Literal:
    found = code(text)
    words = [token.text.lower() for token in found]
    if (number := _number(found)) is not None:
        return Literal(f"({text})" if words[0] == "-" else text, "number", number)
    match found:
        case [Token(kind="string")] if words[0][0] != "x":
            return Literal(text, "text or time", text=_inside(text))
        case [Token(kind="word")] if words[0] in ("true", "false"):
            return Literal(words[0].upper(), "boolean")
        case [Token(kind="word"), Token(kind="string", text=written)] if words[0] in _TYPED:
            if not is_time(_inside(written)) and _inside(written).strip().lower() not in _MOMENTS:
                raise Wrong(f"{written} is not a {'date' if words[0] == 'date' else 'timestamp'}", _TIME_HINT)
            return Literal(text, "time")
    if words == ["null"]:
        raise Wrong("NULL is not a value to compare with", "not_null(column) refuses NULL")
    raise Wrong(f"`{text}` is not a value", "a value is a number, a text in quotes, true, false or DATE '2026-01-31'")
