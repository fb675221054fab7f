"""Checks of texts: like, not_like, matches, email, uuid, length_between, length_eq, valid_type. NULL passes them."""

from __future__ import annotations

import re
import warnings

from sqb.checks.arguments import Arguments, Wrong
from sqb.checks.ranges import unless
from sqb.checks.values import RowTest, Test
from sqb.project.column_types import type_text
from sqb.sql.expand import literal

_EMAIL = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)+$"
_UUID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
# What Java's regular expressions have and Python's do not, replaced by something of the same shape.
_JAVA_ONLY = re.compile(r"\\[pP](?:\{[^}]*\}|\w)|\\[hHRXGzZeGkN](?:<\w+>)?|\\x\{[^}]*\}|\\c.")
_SURELY_WRONG = (
    "unterminated character set",
    "missing )",
    "unbalanced parenthesis",
    "nothing to repeat",
    "bad escape (e",
)


def like(a: Arguments) -> Test:
    """The text fits a LIKE pattern."""
    return unless(f"{a.column('text')} LIKE {literal(_pattern(a))}")


def not_like(a: Arguments) -> Test:
    """The text does not fit a LIKE pattern."""
    return unless(f"{a.column('text')} NOT LIKE {literal(_pattern(a))}")


def _pattern(a: Arguments) -> str:
    pattern = a.text("the pattern")
    if re.search(r"\\(?![%_\\])", pattern):
        raise Wrong(f"`{pattern}` is not a pattern for LIKE", "a backslash stands before %, _ or another backslash")
    return pattern


def matches(a: Arguments) -> Test:
    """Something in the text fits a Java regular expression."""
    column, pattern = a.column("text"), a.text("the regular expression")
    problem = regex_problem(pattern)
    if problem is not None:
        raise Wrong(f"`{pattern}` is not a regular expression: {problem}")
    a.patterns.append(pattern)
    return unless(f"{column} RLIKE {literal(pattern)}")


def email(a: Arguments) -> Test:
    """The text looks like an e-mail address."""
    return unless(f"{a.column('text')} RLIKE {literal(_EMAIL)}")


def uuid(a: Arguments) -> Test:
    """The text is a UUID in its usual form."""
    return unless(f"{a.column('text')} RLIKE {literal(_UUID)}")


def length_between(a: Arguments) -> Test:
    """The text has so many characters, both ends included."""
    column = a.column("text or bytes")
    low, high = a.whole_number("the least length"), a.whole_number("the greatest length")
    if low > high:
        raise Wrong(f"{low} is more than {high}", "the smaller length comes first")
    return unless(f"length({column}) BETWEEN {low} AND {high}")


def length_eq(a: Arguments) -> Test:
    """The text has exactly so many characters."""
    return unless(f"length({a.column('text or bytes')}) = {a.whole_number('the length')}")


def valid_type(a: Arguments) -> Test:
    """The value, as text, can be read as a type."""
    column, kind = a.column("flat"), a.type()
    if not isinstance(kind, str) or kind in ("binary", "variant"):
        raise Wrong(
            f"no text can be read as {type_text(kind).lower()}", "a type is int, decimal(10,2), date or the like"
        )
    return RowTest(f"{column} IS NOT NULL AND try_cast(CAST({column} AS STRING) AS {kind}) IS NULL")


def regex_problem(pattern: str) -> str | None:
    """What is surely wrong with a Java regular expression; None when Java may well accept it."""
    if r"\Q" in pattern or _nested_class(pattern):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(
                _JAVA_ONLY.sub("a", pattern).replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
            )
    except (re.error, OverflowError, RecursionError) as error:
        return str(error) if str(error).startswith(_SURELY_WRONG) else None
    return None


def _nested_class(pattern: str) -> bool:
    """Whether a class of characters holds another, which Python reads otherwise than Java."""
    inside, skip = False, False
    for character in pattern:
        if skip:
            skip = False
        elif character == "\\":
            skip = True
        elif character == "[" and inside:
            return True
        elif character in "[]":
            inside = character == "["
    return False
