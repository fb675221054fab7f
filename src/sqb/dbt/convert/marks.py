"""Marks in a rendered text: what a reference, a variable or a macro becomes depends on where it is in the SQL.

A variable is a literal here and text in dbt, so `'{{ var("day") }}'` is `@@day`, and `{{ var("column") }}` its text. In
a string there can only be text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.jinja.values import MARK
from sqb.sql.text.lexer import Token, tokenize

_MARK = re.compile(MARK + r"(\d+)__")
_MAX_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Relation:
    """A model, a seed, a snapshot or a source: its bare name, and the one with a folder or a schema."""

    name: str
    qualified: str


@dataclass(frozen=True, slots=True)
class Variable:
    """`var()` and its value."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Environment:
    """`env_var()`."""

    name: str


@dataclass(frozen=True, slots=True)
class MacroCall:
    """A call of a macro that is written here too, and the text that it gives."""

    call: str
    text: str


@dataclass(frozen=True, slots=True)
class This:
    """The relation of the model itself."""


Mark = Relation | Variable | Environment | MacroCall | This


class Marks:
    """The marks of one file, by number."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def add(self, mark: Mark) -> str:
        """The text of a mark, the same for equal ones."""
        for number, known in enumerate(self.marks):
            # 1 and True are equal, and are not printed alike.
            if known == mark and repr(known) == repr(mark):
                return f"{MARK}{number}__"
        self.marks.append(mark)
        return f"{MARK}{len(self.marks) - 1}__"


def is_mark_of_this(word: str, marks: Sequence[Mark]) -> bool:
    """Whether a word is a mark of the model itself."""
    match = _MARK.fullmatch(word)
    return match is not None and isinstance(marks[int(match[1])], This)


@dataclass(frozen=True, slots=True)
class Resolution:
    """How marks become text: the word for the model itself, if there is one, and what is called with a variable."""

    marks: Sequence[Mark]
    # Asked for each variable that is to stay one: whether it can, with its value.
    keep_variable: Callable[[Variable], bool]
    note_inlined: Callable[[Variable], None]
    this: str | None = None

    def resolve(self, text: str) -> str:
        """The text with everything in the place of its marks."""
        for _ in range(_MAX_ROUNDS):
            if MARK not in text:
                return text
            names = {t.text.lower() for t in _iter_query_names(text)}
            out, position = "", 0
            for token in tokenize(text):
                out += text[position : token.start] + self._resolve_token(token, names)
                position = token.end
            text = out + text[position:]
        raise Unconvertible("a macro", "its text calls it again")

    def _resolve_token(self, token: Token, names: set[str]) -> str:
        if MARK not in token.text:
            return token.text
        whole = _MARK.fullmatch(token.text)
        if token.kind == "word" and whole is not None:
            return self._write(self.marks[int(whole[1])], names)
        inner = _MARK.fullmatch(token.text[1:-1])
        if token.kind == "string" and inner is not None:
            match self.marks[int(inner[1])]:
                case Variable(_, str()) as variable if self.keep_variable(variable):
                    return f"@@{variable.name}"
                case Environment(name):
                    return f"@@ENV:{name}"
        return _MARK.sub(lambda m: self._write_text(self.marks[int(m[1])], token.kind), token.text)

    def _write(self, mark: Mark, names: set[str]) -> str:
        match mark:
            case Relation(name, qualified):
                return qualified if name.lower() in names else name
            case Variable(name, bool() | int() | float()) if self.keep_variable(mark):
                return f"@@{name}"
            case MacroCall(call):
                return call
            case This() if self.this is not None:
                return self.this
        return self._write_text(mark, "word")

    def _write_text(self, mark: Mark, kind: str) -> str:
        match mark:
            case Variable():
                self.note_inlined(mark)
                return str(mark.value)
            case MacroCall(_, text):
                return text
            case Relation(name, _) if kind == "comment":
                return name
            case This() if kind == "comment":
                return "this"
            case Environment(name) if kind == "comment":
                return name
            case Relation(name, _):
                raise Unconvertible(
                    f"the name of `{name}` in a text", "only table names in queries are references here"
                )
            case Environment(name):
                raise Unconvertible(f"env_var('{name}')", "its value is SQL in dbt, and a string literal here")
            case This():
                raise Unconvertible("`{{ this }}`", "a query does not read its own table here")


def _iter_query_names(text: str) -> Iterator[Token]:
    """The names that a query may have given to a part of itself: those after WITH and after commas."""
    before = ""
    for token in tokenize(text):
        if token.kind == "comment":
            continue
        if token.kind in ("word", "quoted") and before in ("with", ",", "recursive"):
            yield token
        before = token.text.lower()
