"""The tables that a text names, found on its tokens: for queries that sqlglot does not read, and for statements.

A name is one of a table by its place: after FROM, JOIN and the commas of a FROM list, after TABLE, and in
statements after INTO, UPDATE, USING and VIEW. Brackets are followed, so that `EXTRACT(YEAR FROM d)` names none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Literal

from sqb.light_dataclass import dataclass
from sqb.sql.text.lexer import Token, find_closing, strip_quotes, tokenize_code
from sqb.sql.text.spans import Reference

# read: an alias may follow the name; written: none may, and a bracket after the name is a list of columns.
Role = Literal["read", "written"]


@dataclass(frozen=True, slots=True)
class Scope:
    """A pair of brackets and the part of a set operation in it that something is in, and what is around it."""

    number: int
    part: int = 0
    around: Scope | None = field(default=None, compare=False)

    def iter_outwards(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.around


@dataclass(frozen=True, slots=True)
class TableName:
    """A name in the place of a table's, its half-open span, and how the text goes on after it."""

    parts: tuple[str, ...]
    start: int
    end: int
    # Where the name itself begins; the span may take in the TABLE before it.
    name_start: int
    role: Role = "read"
    # The alias that the text gives it.
    alias: str | None = None
    # It has an alias, or is followed by something that cannot follow an alias.
    closed: bool = False
    fixed: bool = False
    # It follows TABLE, where a name is a query.
    whole: bool = False
    # The text calls a query of its own by this name.
    is_cte: bool = False
    scope: Scope = Scope(0)


class DynamicName(Exception):
    """A table's name that is only known when the query runs; `start` and `end` are where."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__("IDENTIFIER(…)")
        self.start, self.end = start, end


QUERY_STARTS = frozenset(["SELECT", "WITH", "FROM", "VALUES", "TABLE"])
_SET_OPERATIONS = frozenset(["UNION", "INTERSECT", "EXCEPT", "MINUS", "SETMINUS"])
_ENDS_FROM = _SET_OPERATIONS | frozenset(
    "WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW SELECT SET QUALIFY WHEN INSERT".split()
)
# What may follow a table's name and is not its alias.
_AFTER_TABLE = _ENDS_FROM | frozenset(
    """
    ANTI AS CROSS EXCEPT FOR FROM FULL INNER JOIN LATERAL LEFT MAP NATURAL ON PARTITION PIVOT REDUCE RIGHT SEMI
    TABLESAMPLE UNPIVOT USING VALUES WATERMARK WITH
    """.split()
)
_BEFORE_TABLE = _SET_OPERATIONS | frozenset(
    """
    ALL ALTER ANALYZE CACHE CREATE DESC DESCRIBE DISTINCT DROP EXTERNAL INTO ON OVERWRITE REFRESH REPAIR REPLACE
    TEMPORARY TRUNCATE UNCACHE
    """.split()
)
# Words after WITH that do not begin a list of queries.
_WITH_OTHER = frozenset("CUBE DATA NO ORDINALITY ROLLUP SCHEMA SINGLE TIES".split())
_VERSIONS = frozenset("VERSION TIMESTAMP SYSTEM_VERSION SYSTEM_TIME".split())


@dataclass(slots=True)
class _Frame:
    """What is known inside one pair of brackets, or of the text as a whole."""

    scope: Scope
    # It holds a query, so that FROM means tables.
    query: bool = False
    # Brackets after a name: arguments.
    call: bool = False
    expecting: Role | None = None
    # Where the name that is expected begins, when it is in the place of a query.
    whole: int | None = None
    # Commas go on with the tables of FROM.
    listing: bool = False
    # Commas go on with the rows of VALUES.
    rows: bool = False
    queries: set[str] = field(default_factory=set)
    naming: bool = False
    recursive: bool = False
    # The query that a WITH has named and whose brackets have not closed yet.
    pending: str | None = None


def find_tables(tokens: Sequence[Token], statement: bool = False) -> list[TableName]:
    """The names of tables in a text's tokens, in order; with `statement` also those that it writes."""
    return _Scan(tokens, statement).run().names


def find_called_tables(tokens: Sequence[Token]) -> frozenset[int]:
    """Where functions are called in the place of a table, in a query or a statement."""
    statement = bool(tokens) and tokens[0].text.upper() not in QUERY_STARTS and tokens[0].text != "("
    scan = _Scan(tokens, statement)
    # The parser reports a name that is only known when the query runs.
    with suppress(DynamicName):
        scan.run()
    return frozenset(scan.called)


class _Scan:
    def __init__(self, tokens: Sequence[Token], statement: bool) -> None:
        self.tokens, self.statement = tokens, statement
        self.upper = [t.text.upper() if t.kind == "word" else t.text for t in tokens]
        self.frames = [_Frame(Scope(0), query=True)]
        self.names: list[TableName] = []
        self.called: list[int] = []
        self.scopes: list[Scope] = []
        self.numbers = 0

    def run(self) -> _Scan:
        index = 0
        while index < len(self.tokens):
            after = self._step(index)
            self.scopes += [self.frame.scope] * (after - index)
            index = after
        return self

    def _get_word(self, index: int) -> str:
        return self.upper[index] if 0 <= index < len(self.upper) else ""

    @property
    def frame(self) -> _Frame:
        return self.frames[-1]

    def _step(self, index: int) -> int:
        token, frame = self.tokens[index], self.frame
        if token.kind == "symbol":
            self._scan_symbol(index)
        elif token.kind in ("word", "quoted"):
            if frame.naming:
                self._name_query(index)
            elif frame.expecting is not None:
                return self._scan_expected_name(index)
            elif token.kind == "word" and self._get_word(index - 1) != ".":
                self._scan_word(index)
            elif frame.rows and self._get_word(index - 1) == ")":
                frame.rows = False
        else:
            frame.expecting = None
        return index + 1

    # --- brackets and commas --------------------------------------------------------------------------------------

    def _scan_symbol(self, index: int) -> None:
        frame, text = self.frame, self.upper[index]
        if text in ("(", "[", "{"):
            self._open_bracket(index)
        elif text in (")", "]", "}"):
            if len(self.frames) > 1:
                self.frames.pop()
                self._close_bracket(index)
        elif text == "," and frame.listing and not frame.rows:
            frame.expecting = "read"
        elif text == "|" and self._get_word(index + 1) == ">":
            frame.listing = False
        elif text != ".":
            frame.expecting = None

    def _open_bracket(self, index: int) -> None:
        outer, before, after = self.frame, self._get_word(index - 1), self._get_word(index + 1)
        self.numbers += 1
        query = after in QUERY_STARTS and self.upper[index] == "("
        call = index > 0 and self.tokens[index - 1].kind in ("word", "quoted") and before not in _AFTER_TABLE
        inner = _Frame(Scope(self.numbers, 0, outer.scope), query=query, call=call)
        if outer.expecting is not None and self.upper[index] == "(":
            inner.expecting = None if query else outer.expecting
            inner.whole = None if outer.whole is None else index + 1
            inner.listing = not query
        outer.expecting = outer.whole = None
        self.frames.append(inner)

    def _close_bracket(self, index: int) -> None:
        frame = self.frame
        if frame.pending is not None and self._get_word(index + 1) not in ("AS", "MAX"):
            frame.queries.add(frame.pending)
            frame.pending = None
            frame.naming = self._get_word(index + 1) == ","

    # --- words ----------------------------------------------------------------------------------------------------

    def _scan_word(self, index: int) -> None:
        frame, word = self.frame, self.upper[index]
        before, after = self._get_word(index - 1), self._get_word(index + 1)
        if before == "AS" and not (self.statement and word in QUERY_STARTS):
            return
        if word == "AS" or before == ")":
            frame.rows = False
        if word == "SELECT":
            frame.query = True
        if word == "FROM":
            if frame.query and not (before == "DISTINCT" and self._get_word(index - 2) in ("IS", "NOT")):
                frame.expecting, frame.listing = "read", True
        elif word == "JOIN":
            if frame.query or frame.listing:
                frame.expecting = "read"
        elif word == "WITH" and after != "(" and after not in _WITH_OTHER:
            frame.recursive = after == "RECURSIVE"
            frame.naming = True
        elif word == "TABLE":
            if self._is_table_keyword(index):
                frame.expecting = "written" if self.statement and not frame.call else "read"
                # An argument is `TABLE (query)`, a query is just that.
                frame.whole = None if self.statement else index + frame.call
        elif word in _ENDS_FROM or (word == "LATERAL" and after == "VIEW"):
            frame.listing = frame.rows = False
            if word in _SET_OPERATIONS and before != "*":
                frame.scope = replace(frame.scope, part=frame.scope.part + 1)
        elif self.statement:
            self._scan_statement_word(index)

    def _is_table_keyword(self, index: int) -> bool:
        before = self._get_word(index - 1)
        first = index == 0 or before == "("
        if self.frame.call:
            return first or before in (",", "=>")
        return first or before == ")" or before in _BEFORE_TABLE

    def _scan_statement_word(self, index: int) -> None:
        frame, before = self.frame, self._get_word(index - 1)
        match self.upper[index]:
            case "INTO":
                frame.expecting = "read" if before == "MERGE" else "written"
            case "OVERWRITE" if self._get_word(index + 1) not in ("DIRECTORY", "LOCAL"):
                frame.expecting = "written"
            case "UPDATE":
                frame.expecting = "read"
            case "VIEW" if before in _BEFORE_TABLE:
                frame.expecting = "written"
            case "USING" if "MERGE" in self.upper[:index]:
                frame.expecting = "read"

    def _name_query(self, index: int) -> None:
        frame = self.frame
        if self.upper[index] == "RECURSIVE" and frame.recursive and self._get_word(index - 1) == "WITH":
            return
        frame.naming = False
        frame.pending = strip_quotes(self.tokens[index]).lower()
        if frame.recursive:
            frame.queries.add(frame.pending)

    # --- names ----------------------------------------------------------------------------------------------------

    def _scan_expected_name(self, index: int) -> int:
        """A word where a table's name may be."""
        frame, word = self.frame, self.upper[index]
        if self.tokens[index].kind == "word":
            if word == "LATERAL" or (frame.expecting == "written" and word in ("IF", "NOT", "EXISTS", "TABLE")):
                return index + 1
            if word == "TABLE" and self._get_word(index + 1) == "(":
                return index + 1
            if word == "VALUES":
                frame.expecting, frame.rows = None, True
                return index + 1
            if word == "IDENTIFIER" and self._get_word(index + 1) == "(":
                raise DynamicName(self.tokens[index].start, self.tokens[index].end)
            if word in _ENDS_FROM or word in ("FROM", "WITH", "ON", "JOIN"):
                frame.expecting = None
                self._scan_word(index)
                return index + 1
        return self._read_table_name(index)

    def _read_table_name(self, index: int) -> int:
        frame, last = self.frame, index
        while (
            self._get_word(last + 1) == "." and last + 2 < len(self.tokens) and self.tokens[last + 2].kind != "symbol"
        ):
            last += 2
        role, frame.expecting = frame.expecting or "read", None
        whole, frame.whole = frame.whole, None
        if self._get_word(last + 1) == "(" and role == "read":
            self.called.append(self.tokens[index].start)
            return last + 1
        parts = tuple(strip_quotes(token) for token in self.tokens[index : last + 1 : 2])
        is_cte = len(parts) == 1 and any(parts[0].lower() in f.queries for f in self.frames)
        fixed = self._is_version(last + 1)
        self.names.append(
            TableName(
                parts,
                self.tokens[index if whole is None else whole].start,
                self.tokens[last].end,
                self.tokens[index].start,
                role,
                self._find_alias(last + 1),
                self.upper[0] == "SHOW" or role == "written" or self._is_closed(last + 1),
                fixed,
                whole is not None,
                is_cte,
                frame.scope,
            )
        )
        return last + 1

    def _is_version(self, index: int) -> bool:
        index += self._get_word(index) == "FOR"
        return (
            self._get_word(index) in _VERSIONS
            and self._get_word(index + 1) == "AS"
            and self._get_word(index + 2) == "OF"
        )

    def _find_alias(self, index: int) -> str | None:
        index += self._get_word(index) == "AS"
        if index >= len(self.tokens) or self.tokens[index].kind not in ("word", "quoted"):
            return None
        plain = self.tokens[index].kind == "word" and self._get_word(index - 1) != "AS"
        return None if plain and self.upper[index] in _AFTER_TABLE else strip_quotes(self.tokens[index])

    def _is_closed(self, index: int) -> bool:
        word = self._get_word(index)
        if self._is_version(index):
            return True
        if index >= len(self.tokens) or self.tokens[index].kind not in ("word", "quoted"):
            return False
        options = word == "WITH" and self._get_word(index + 1) == "("
        return options or word in ("AS", "TABLESAMPLE", "WATERMARK") or word not in _AFTER_TABLE


def find_references(
    tokens: Sequence[Token], forced: Mapping[int, str], statement: bool = False
) -> tuple[Reference, ...]:
    """The tables that a text names and does not define itself, each with the alias that its columns need."""
    scan = _Scan(tokens, statement).run()
    aliases = {n.start: _choose_alias(n, scan.names) for n in scan.names if not n.is_cte}
    qualifiers = _find_qualifiers(scan, aliases)
    return tuple(
        Reference(
            n.parts,
            n.start,
            n.end,
            aliases[n.start],
            qualifiers.get(n.start, ()),
            forced.get(n.name_start),
            n.fixed,
            n.whole,
        )
        for n in scan.names
        if not n.is_cte
    )


def _list_labels(name: TableName) -> tuple[str, ...]:
    """The words by which columns can name a table."""
    return (name.alias.lower(),) if name.alias else tuple(p.lower() for p in name.parts)


def _choose_alias(name: TableName, names: Sequence[TableName]) -> str | None:
    """The table's own last name, or a longer alias where a place can see two tables with that name."""
    if name.closed or name.whole:
        return None
    labels = _list_labels(name)
    for other in names:
        other_labels = _list_labels(other)
        alike = other_labels[-1] == labels[-1] and other_labels != labels
        if alike and (other.scope in name.scope.iter_outwards() or name.scope in other.scope.iter_outwards()):
            return "__".join(name.parts)
    return name.parts[-1]


def _find_qualifiers(scan: _Scan, aliases: Mapping[int, str | None]) -> dict[int, tuple[tuple[int, int], ...]]:
    """The spans before columns that mean a table which has got another name."""
    tokens = scan.tokens
    spans: dict[int, tuple[tuple[int, int], ...]] = {}
    name_starts = {n.start for n in scan.names}
    for index, token in enumerate(tokens):
        if (
            token.kind not in ("word", "quoted")
            or token.start in name_starts
            or (index and tokens[index - 1].text == ".")
        ):
            continue
        length, name = _resolve_qualifier(scan, index)
        alias = aliases.get(name.start) if name is not None else None
        if name is not None and alias and (length > 1 or alias.lower() != _list_labels(name)[-1]):
            span = (token.start, tokens[index + 2 * length - 2].end)
            spans[name.start] = (*spans.get(name.start, ()), span)
    return spans


def _resolve_qualifier(scan: _Scan, index: int) -> tuple[int, TableName | None]:
    """The table that the words before a column's name mean, the nearest first, and how many of them mean it."""
    words: list[str] = []
    while index + 1 < len(scan.tokens) and scan.tokens[index + 1].text == ".":
        words.append(strip_quotes(scan.tokens[index]).lower())
        index += 2
    scope = scan.scopes[min(index, len(scan.scopes) - 1)]
    for around in scope.iter_outwards() if words else ():
        here = [n for n in scan.names if n.scope == around]
        for length in range(len(words), 0, -1):
            matches = [n for n in here if _list_labels(n)[-length:] == tuple(words[:length])]
            if matches:
                return length, next((n for n in matches if len(_list_labels(n)) == length), matches[0])
    return 0, None


@dataclass(frozen=True, slots=True)
class Ctes:
    """The names of a query's top-level CTEs as written, and the offset at which the rest of the query begins."""

    names: tuple[str, ...]
    end: int


def find_top_level_ctes(text: str) -> Ctes:
    """Find the CTEs of the WITH at the beginning of a query; no names when it has none."""
    tokens = tokenize_code(text)
    if not tokens or tokens[0].text.lower() != "with":
        return Ctes((), 0)
    names: list[str] = []
    index = 1
    if tokens[1:2] and tokens[1].text.lower() == "recursive" and tokens[2:3] and tokens[2].kind in ("word", "quoted"):
        # `WITH recursive AS (…)` is a CTE of that name.
        index = 1 if tokens[2].text.lower() == "as" else 2
    while index < len(tokens):
        names.append(tokens[index].text.strip("`").replace("``", "`"))
        # A list of columns, MAX RECURSION LEVEL and AS may be between the name and the body.
        body = index + 1
        while body < len(tokens) and not (tokens[body].text == "(" and tokens[body - 1].text.lower() == "as"):
            body += 1
        end = find_closing(tokens, body) if body < len(tokens) else None
        if end is None or end + 1 >= len(tokens):
            return Ctes((), 0)
        if tokens[end + 1].text != ",":
            return Ctes(tuple(names), tokens[end].end)
        index = end + 2
    return Ctes((), 0)
