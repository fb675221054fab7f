"""Checks of texts: like, not_like, matches, email, uuid, length_between, length_eq, valid_type. NULL passes them."""

from __future__ import annotations

import re
import warnings

from sqb.checks.arguments import Arguments, BadArgument
from sqb.checks.library.ranges import build_row_test
from sqb.checks.model import RowTest, Test
from sqb.types.literals import format_literal
from sqb.types.text import can_parse_text

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
    return build_row_test(f"{a.take_column('text')} LIKE {format_literal(_take_pattern(a))}")


def not_like(a: Arguments) -> Test:
    """The text does not fit a LIKE pattern."""
    return build_row_test(f"{a.take_column('text')} NOT LIKE {format_literal(_take_pattern(a))}")


def _take_pattern(a: Arguments) -> str:
    pattern = a.take_text("the pattern")
    if re.search(r"\\(?![%_\\])", pattern):
        raise BadArgument(
            f"`{pattern}` is not a pattern for LIKE", "write a backslash only before %, _ or another backslash"
        )
    return pattern


def matches(a: Arguments) -> Test:
    """Something in the text fits a Java regular expression."""
    column, pattern = a.take_column("text"), a.take_text("the regular expression")
    problem = find_regex_problem(pattern)
    if problem is not None:
        raise BadArgument(f"`{pattern}` is not a regular expression: {problem}")
    a.patterns.append(pattern)
    return build_row_test(f"{column} RLIKE {format_literal(pattern)}")


def email(a: Arguments) -> Test:
    """The text looks like an e-mail address."""
    return build_row_test(f"{a.take_column('text')} RLIKE {format_literal(_EMAIL)}")


def uuid(a: Arguments) -> Test:
    """The text is a UUID in its usual form."""
    return build_row_test(f"{a.take_column('text')} RLIKE {format_literal(_UUID)}")


def length_between(a: Arguments) -> Test:
    """The text has so many characters, both ends included."""
    column = a.take_column("text or bytes")
    low, high = a.take_whole_number("the least length"), a.take_whole_number("the greatest length")
    if low > high:
        raise BadArgument(f"{low} is more than {high}", "the smaller length comes first")
    return build_row_test(f"length({column}) BETWEEN {low} AND {high}")


def length_eq(a: Arguments) -> Test:
    """The text has exactly so many characters."""
    return build_row_test(f"length({a.take_column('text or bytes')}) = {a.take_whole_number('the length')}")


def valid_type(a: Arguments) -> Test:
    """The value, as text, can be read as a type."""
    column, kind = a.take_column("flat"), a.take_type()
    if not can_parse_text(kind):
        raise BadArgument(f"no text can be read as {kind}", "a type is int, decimal(10,2), date or the like")
    return RowTest(f"{column} IS NOT NULL AND try_cast(CAST({column} AS STRING) AS {kind}) IS NULL")


def find_regex_problem(pattern: str) -> str | None:
    """What is surely wrong with a Java regular expression; None when Java may well accept it."""
    if r"\Q" in pattern or _has_nested_class(pattern):
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


def _has_nested_class(pattern: str) -> bool:
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
