"""What a query says: its references, the places of its identifiers, what makes it volatile.

The query is run as it was written: only the spans of references are replaced, never the text around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.light_dataclass import dataclass
from sqb.sql.functions.builtins import VOLATILE
from sqb.sql.text.lexer import Token, tokenize_code
from sqb.sql.text.spans import Reference
from sqb.sql.text.special_dates import iter_special_dates

# Bump when the canonical form of the same text changes; stored definitions are then made canonical again.
CANONICAL_VERSION = 1

_BARE_VOLATILE = frozenset(
    ["current_date", "current_timestamp", "localtimestamp", "current_time", "current_user", "session_user"]
)


class QueryProblem(Exception):
    """The text is not one query; `start` and `end` are offsets in it."""

    def __init__(self, kind: str, message: str, start: int, end: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.start, self.end, self.hint = kind, message, start, end, hint


@dataclass(frozen=True, slots=True)
class SelectList:
    """A query in two parts: the columns of its list that stand alone, by name and text, and the text of the rest.

    The rest is the texts between references, as in the canonical form.
    """

    rest: tuple[str, ...]
    independent: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A query as written and as it is run, which differ only when Spark lacks a clause that the author may use."""

    canonical: tuple[str, ...]
    references: tuple[Reference, ...]
    runnable: str
    slots: tuple[Reference, ...]
    volatile: tuple[tuple[str, int], ...] = ()
    # Why sqlglot did not read it, and where: then it is known by its tokens alone.
    unread: tuple[str, int] | None = None
    # The names of its columns, where its text alone tells all of them.
    outputs: tuple[str, ...] | None = None
    # What it reads of each slot: see `sql.analysis.columns_read`. Shorter than `slots` where nothing is known.
    reading: tuple[tuple[str, ...], ...] = ()
    # The query taken apart, where that can be done.
    columns: SelectList | None = None


def tokenize_statement(text: str) -> list[Token]:
    """The tokens of a text that holds one complete statement; anything else is a `QueryProblem`."""
    tokens = tokenize_code(text)
    for token in tokens:
        if token.kind == "broken" and token.text.startswith("/*"):
            raise QueryProblem(
                "parse", "this comment is never closed", token.start, token.start + 2, "close it with */"
            )
        if token.kind == "broken":
            raise QueryProblem(
                "parse", f"this {token.text[-1]} is never closed", token.start, token.end, "close the string or name"
            )
        if token.kind in ("macro", "variable"):
            raise QueryProblem("parse", f"{token.text} is not expanded here", token.start, token.end)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        raise QueryProblem("empty", "there is no query", 0, 1, "write one SELECT")
    for index, token in enumerate(tokens):
        if token.text == ";":
            after = tokens[index + 1]
            raise QueryProblem(
                "many", "a second statement begins here", after.start, after.end, "keep one SELECT per file"
            )
    return tokens


def compute_canonical(text: str, references: Sequence[Reference], identifiers: frozenset[int]) -> tuple[str, ...]:
    """The canonical form: the texts between references. Comments, white space, keyword case and quoting are gone."""
    spans = {r.start: r for r in references}
    parts: list[str] = []
    words: list[str] = []
    skip_to = 0
    for token in tokenize_statement(text):
        if token.start < skip_to:
            continue
        if token.start in spans:
            skip_to = spans[token.start].end
            parts.append(" ".join(words))
            words = []
            continue
        words.append(canonicalize_token(token, identifiers))
    return (*parts, " ".join(words))


def canonicalize_token(token: Token, identifiers: frozenset[int]) -> str:
    """One token of the canonical form; `identifiers` are the places of names."""
    match token.kind:
        case "quoted":
            return token.text
        case "word" if token.start in identifiers:
            return f"`{token.text}`"
        case "word" | "number":
            return token.text.upper()
        case "hint":
            return " ".join(token.text.upper().split())
        case "symbol" if token.text in ("!=", "<>"):
            return "<>"
        case "symbol" if token.text == "==":
            return "="
        case _:
            return token.text


def iter_volatile_parts(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """What depends on when, where or by chance, with its places: functions, and texts that mean today."""
    yield from _iter_volatile_functions(tokens)
    yield from iter_special_dates(tokens)


def _iter_volatile_functions(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    for index, token in enumerate(tokens):
        name = token.text.lower()
        if token.kind != "word" or (name not in VOLATILE and name != "unix_timestamp"):
            continue
        if index and tokens[index - 1].text == ".":
            continue
        opens = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if name == "unix_timestamp":
            if opens and index + 2 < len(tokens) and tokens[index + 2].text == ")":
                yield name, token.start
        elif opens or name in _BARE_VOLATILE:
            yield name, token.start
