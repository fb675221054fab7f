"""What other databases read and Spark does not, where sqlglot reads both: names of types, and words after a star."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.names import suggest_nearest
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.text.lexer import Token

_TYPE_NAMES = (
    """
    boolean tinyint byte smallint short int integer bigint long float real double decimal dec numeric date timestamp
    timestamp_ntz timestamp_ltz time string char character varchar binary void interval array map struct variant object
    geometry geography
    """
).split()
_NEED_A_LENGTH = frozenset(["char", "character", "varchar"])
# Names of other databases, and what is written in Spark.
_ELSEWHERE = {
    "text nvarchar varchar2 nchar clob uuid": "string",
    "number bignumeric": "decimal(38,0)",
    "int2": "smallint",
    "int4 int32": "int",
    "int8 int64": "bigint",
    "float4 float32": "float",
    "float8 float64": "double",
    "bool": "boolean",
    "datetime timestamptz": "timestamp",
    "bytes bytea blob varbinary": "binary",
    "json jsonb": "variant",
}
_SPARK_NAMES = {name: here for names, here in _ELSEWHERE.items() for name in names.split()}
_MAX_DIGITS = 38
_WITH_UNIT = frozenset("DATEADD DATE_ADD DATEDIFF DATE_DIFF TIMESTAMPADD TIMESTAMPDIFF".split())
_UNITS = frozenset("YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND".split())
_AFTER_STAR = {
    "EXCLUDE": "write * EXCEPT (…)",
    "REPLACE": "write * EXCEPT (a), … AS a",
    "RENAME": "write * EXCEPT (a), a AS b",
}


def find_unknown_type(tokens: Sequence[Token]) -> QueryProblem | None:
    """Find the type of a cast that Spark does not have."""
    for index in _iter_types(tokens):
        word, after = tokens[index], tokens[index + 1 : index + 3]
        name, hint = word.text.lower(), "such as int, string or decimal(10,2)"
        if name in _SPARK_NAMES:
            hint = f"write {_SPARK_NAMES[name]}"
        elif name not in _TYPE_NAMES:
            hint = suggest_nearest(name, _TYPE_NAMES) or hint
        elif name in _NEED_A_LENGTH and (not after or after[0].text != "("):
            message = f"the type {word.text} needs a length"
            return QueryProblem("parse", message, word.start, word.end, f"write string, or {name}(100)")
        elif name in ("decimal", "dec", "numeric") and _has_too_many_digits(after):
            message = f"a {name} has at most {_MAX_DIGITS} digits"
            return QueryProblem("parse", message, after[1].start, after[1].end)
        else:
            continue
        return QueryProblem("parse", f"there is no type {word.text}", word.start, word.end, hint)
    return None


def find_foreign_words(tokens: Sequence[Token]) -> QueryProblem | None:
    """Find `* EXCLUDE (…)`, `* REPLACE (…)`, `* RENAME (…)`, `SELECT TOP 5` and `datediff('day', …)`."""
    for index, token in enumerate(tokens[:-2]):
        word, after = tokens[index + 1], tokens[index + 2]
        text = token.text.upper()
        if text == "SELECT" and word.text.upper() == "TOP" and after.kind == "number":
            hint = f"write LIMIT {after.text} at the end"
            return QueryProblem("parse", "Spark has no TOP", word.start, word.end, hint)
        unit = after.text[1:-1].upper() if after.kind == "string" else ""
        if text in _WITH_UNIT and word.text == "(" and unit in _UNITS:
            hint = f"write {text.lower()}({unit}, …)"
            return QueryProblem("parse", f"the unit of {text.lower()} has no quotes", after.start, after.end, hint)
        is_star = text == "*" and index and tokens[index - 1].text.upper() in ("SELECT", "DISTINCT", ",", ".")
        if is_star and word.kind == "word" and after.text == "(":
            name = word.text.upper()
            if name in _AFTER_STAR:
                return QueryProblem("parse", f"Spark has no * {name}", word.start, word.end, _AFTER_STAR[name])
    return None


def _has_too_many_digits(after: Sequence[Token]) -> bool:
    return len(after) == 2 and after[0].text == "(" and after[1].text.isdigit() and int(after[1].text) > _MAX_DIGITS


def _iter_types(tokens: Sequence[Token]) -> Iterator[int]:
    """Where the words are that name the type of a cast: after AS in its brackets, or after two colons."""
    # For every open bracket, whether it is that of a cast.
    opened: list[bool] = []
    for index, token in enumerate(tokens[:-1]):
        text = token.text
        if text in ("(", "[", "{"):
            opened.append(index > 0 and tokens[index - 1].text.upper() in ("CAST", "TRY_CAST"))
        elif text in (")", "]", "}"):
            if opened:
                opened.pop()
        elif tokens[index + 1].kind == "word":
            is_last_name = index + 2 < len(tokens) and tokens[index + 2].text in (")", "(", "<")
            if text == "::" or (opened and opened[-1] and is_last_name and text.upper() == "AS"):
                yield index + 1
