"""Texts that Spark reads as another day each day: `TIMESTAMP 'now'`, `DATE 'today'`, `date_add('tomorrow', 1)`.

Only a text that stands in the query is read so, not one that comes from a column. Where such a word may as well be an
ordinary text, as in a comparison with a column, it counts as volatile: that costs time and no rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqb.sql.text.lexer import Token, find_closing

_TYPES = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz"})
# 'today Europe/Berlin' and 'today+01:00' are today too; white space and control characters around it are nothing.
_SPECIAL = re.compile(r"[\s\x00-\x1f]*(now|today|yesterday|tomorrow)([^a-z].*)?", re.IGNORECASE | re.DOTALL | re.ASCII)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)|''|\"\"", re.DOTALL)
_CONTROL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_COMPARES = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "+", "-"})
_CASTS = frozenset({"cast", "try_cast"})
# What has one type for all of its arguments from the one of this number on: a text among dates becomes a date. Some
# have two types in turn.
_SHARES_TYPE = {"array": 0, "if": 1, "lag": 0, "lead": 0, "nvl2": 1}
_SHARES_TYPES = frozenset({"decode", "map"})
# What every other text lacks that can be a date.
_DATE_LIKE = re.compile(r".*[0-9].*|\s*epoch\s*", re.IGNORECASE | re.DOTALL)
# What takes a date or a timestamp in the place of the text, or the type of the others that it is given.
_TAKES_DATES = frozenset(
    """
    add_months coalesce convert_timezone date date_add date_diff date_format date_part date_sub date_trunc dateadd
    datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_utc_timestamp greatest hour ifnull
    last_day least minute month monthname months_between next_day nullif nvl quarter second sequence session_window
    timestamp timestampadd timestampdiff to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp trunc try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds
    unix_timestamp weekday weekofyear window window_time year in between
    """.split()
)


def iter_special_dates(code_tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """The texts of a query that mean another time each time, as they are written, with their places."""
    tokens = list(code_tokens)
    # The brackets around a place, each by whether a text directly or further inside may become a date.
    around: list[bool] = []
    for index, token in enumerate(tokens):
        if token.text in _OPENING:
            around.append(_can_make_dates(tokens, index))
        elif token.text in _CLOSING and around:
            around.pop()
        elif token.kind == "string" and not _is_continuation(tokens, index):
            last = _find_last_part(tokens, index)
            text = "".join(_parse_literal(t.text) for t in tokens[index : last + 1])
            if _SPECIAL.fullmatch(text) and (any(around) or _is_made_date(tokens, index, last)):
                yield f"'{text.strip()}'", token.start


def _get_word(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text.lower() if 0 <= index < len(tokens) else ""


def _can_make_dates(tokens: list[Token], opening: int) -> bool:
    """Whether what stands in these brackets may be made a date: by a function, or by a cast of all of it."""
    before = _get_word(tokens, opening - 1)
    if before in _TAKES_DATES:
        return True
    end = find_closing(tokens, opening)
    if end is None:
        return False
    if before in _CASTS:
        return any(_get_word(tokens, i) == "as" and _get_word(tokens, i + 1) in _TYPES for i in range(opening, end))
    if before in _SHARES_TYPE:
        return _can_be_dates(_split_at_commas(tokens, opening, end)[_SHARES_TYPE[before] :])
    if before in _SHARES_TYPES:
        return not all(map(_is_text, _split_at_commas(tokens, opening, end)))
    return _get_word(tokens, end + 1) == "::" and _get_word(tokens, end + 2) in _TYPES


def _is_made_date(tokens: Sequence[Token], first: int, last: int) -> bool:
    """Whether the text from one token to another is made a date by what stands beside it."""
    before, after = _get_word(tokens, first - 1), _get_word(tokens, last + 1)
    if before in _TYPES or (after == "::" and _get_word(tokens, last + 2) in _TYPES):
        return True
    if before in _COMPARES or after in _COMPARES or after == "between" or before == "between":
        return True
    if _is_beside_distinct(tokens, first, last) or (before == "when" and after == "then"):
        return True
    if before in ("then", "else") and after in ("when", "else", "end"):
        return _can_be_dates(_list_case_results(tokens, first))
    # BETWEEN a AND b: the upper end.
    return before == "and" and any(_get_word(tokens, i) == "between" for i in range(max(0, first - 12), first))


def _is_beside_distinct(tokens: Sequence[Token], first: int, last: int) -> bool:
    """Whether a text is compared by IS [NOT] DISTINCT FROM."""
    words_after = [_get_word(tokens, last + i) for i in (1, 2, 3)]
    is_left = words_after[0] == "is" and "distinct" in words_after[1:]
    return is_left or (_get_word(tokens, first - 1) == "from" and _get_word(tokens, first - 2) == "distinct")


def _can_be_dates(expressions: Sequence[Sequence[Token]]) -> bool:
    """Whether expressions that have one type may be dates: none is a text that no date is, and not all are texts."""
    texts = [
        "".join(_parse_literal(t.text) for t in e) for e in expressions if e and e[0].kind == "string" and _is_text(e)
    ]
    if any(not _SPECIAL.fullmatch(text) and not _DATE_LIKE.fullmatch(text) for text in texts):
        return False
    return not expressions or not all(map(_is_text, expressions))


def _is_text(tokens: Sequence[Token]) -> bool:
    """Whether an expression is nothing but a text or NULL, which makes no date of another one."""
    return all(token.kind == "string" for token in tokens) or [t.text.lower() for t in tokens] == ["null"]


def _split_at_commas(tokens: list[Token], opening: int, end: int) -> list[list[Token]]:
    """The tokens of each argument between two brackets."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[opening + 1 : end]:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if token.text == "," and not depth:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _list_case_results(tokens: Sequence[Token], inside: int) -> list[list[Token]]:
    """The results of the CASE that a place is a result of, less what is within brackets and other CASEs in them."""
    results: list[list[Token]] = []
    is_result, depth = False, 0
    for token in tokens[_find_case(tokens, inside) + 1 :]:
        word = token.text.lower()
        if not depth and word in ("when", "then", "else", "end"):
            if word == "end":
                break
            is_result = word in ("then", "else")
            results += [[]] if is_result else []
        elif is_result:
            results[-1].append(token)
        depth += (word in _OPENING or word == "case") - (word in _CLOSING or word == "end")
    return results


def _find_case(tokens: Sequence[Token], inside: int) -> int:
    """Where the CASE begins whose THEN or ELSE is before a place."""
    depth = 0
    for index in range(inside - 1, -1, -1):
        word = tokens[index].text.lower()
        if word == "case" and not depth:
            return index
        depth += (word in _CLOSING or word == "end") - (word in _OPENING or word == "case")
    return -1


def _is_continuation(tokens: Sequence[Token], index: int) -> bool:
    return index > 0 and tokens[index - 1].kind == "string"


def _find_last_part(tokens: Sequence[Token], index: int) -> int:
    """Texts that follow each other are one text."""
    while index + 1 < len(tokens) and tokens[index + 1].kind == "string":
        index += 1
    return index


def _parse_literal(literal_text: str) -> str:
    """Decode a string literal; binary literals give a text that no date matches."""
    if literal_text[0] in "xX":
        return "\0x"
    if literal_text[0] in "rR":
        return literal_text[2:-1]
    return _ESCAPE.sub(_unescape, literal_text[1:-1])


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return match[0][0]
    if code[0] in "uU" and len(code) > 1:
        return chr(int(code[1:], 16)) if int(code[1:], 16) <= 0x10FFFF else code
    if len(code) == 3:
        return chr(int(code, 8))
    return _CONTROL.get(code, code)
