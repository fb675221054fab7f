"""Reading the skeleton of a query from its tokens. What is not recognised raises `NotProven`, and proves nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.skeleton.model import Block, Body, Cte, GroupStyle, JoinType, Query, SetOperation, Source, Span
from sqb.sql.text.lexer import Token, strip_quotes, tokenize_code

_SET_OPERATORS = {"UNION": "UNION", "INTERSECT": "INTERSECT", "EXCEPT": "EXCEPT", "MINUS": "EXCEPT"}
_JOIN_WORDS = frozenset("NATURAL INNER CROSS LEFT RIGHT FULL OUTER SEMI ANTI JOIN".split())
_BY_CLAUSES = frozenset("GROUP ORDER SORT CLUSTER DISTRIBUTE".split())
_CLAUSES = frozenset("WHERE HAVING QUALIFY WINDOW LIMIT OFFSET".split())
_TAIL = frozenset({"ORDER", "LIMIT", "OFFSET"})
_OPAQUE_SOURCES = frozenset("LATERAL VALUES TABLE STREAM IDENTIFIER".split())
_AFTER_SOURCE = frozenset("TABLESAMPLE PIVOT UNPIVOT".split())


def read_skeleton(text: str) -> Query:
    """The skeleton of a query."""
    return _Reader(text).read()


class _Reader:
    """Reads tokens from left to right; `_closing` holds the index of the bracket that closes each opening one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [t for t in tokenize_code(text) if t.kind != "hint"]
        self.words = [t.text.upper() if t.kind == "word" else "" for t in self.tokens]
        self._closing = self._match_brackets()

    def read(self) -> Query:
        end = len(self.tokens)
        while end and self.tokens[end - 1].text == ";":
            end -= 1
        return self._read_query(0, end)

    def _match_brackets(self) -> dict[int, int]:
        closing: dict[int, int] = {}
        stack: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.text in ("(", "[", "{") and token.kind == "symbol":
                stack.append(index)
            elif token.text in (")", "]", "}") and token.kind == "symbol":
                if not stack:
                    raise NotProven("brackets that do not match", token.start)
                closing[stack.pop()] = index
        if stack:
            raise NotProven("brackets that do not match", self.tokens[stack[-1]].start)
        return closing

    # --- queries --------------------------------------------------------------------------------------------------

    def _read_query(self, start: int, end: int) -> Query:
        """The query in the tokens `[start, end)`."""
        begin = start
        ctes: list[Cte] = []
        if start < end and self.words[start] == "WITH":
            start = self._read_ctes(start + 1, end, ctes)
        tail = self._find_tail(start, end)
        order, limit = self._read_tail(tail, end)
        return Query(self._span(begin, end), self._read_body(start, tail), tuple(ctes), order, limit)

    def _read_ctes(self, index: int, end: int, ctes: list[Cte]) -> int:
        if self.words[index] == "RECURSIVE":
            raise NotProven("WITH RECURSIVE", self.tokens[index].start)
        while True:
            name = self.tokens[index]
            index += 1
            columns: tuple[str, ...] = ()
            if self._is("(", index):
                columns = self._read_names(index)
                index = self._closing[index] + 1
            index += self._word(index) == "AS"
            if not self._is("(", index):
                raise NotProven("this WITH is not understood", name.start)
            closing = self._closing[index]
            ctes.append(Cte(strip_quotes(name).lower(), self._read_query(index + 1, closing), columns))
            index = closing + 1
            if not self._is(",", index):
                return index
            index += 1

    def _find_tail(self, start: int, end: int) -> int:
        """Where ORDER BY, LIMIT or OFFSET begin that belong to the whole query."""
        for index in self._iter_outer(start, end):
            is_order = self.words[index] == "ORDER" and self._word(index + 1) == "BY"
            if is_order or self.words[index] in ("LIMIT", "OFFSET"):
                return index
        return end

    def _read_tail(self, start: int, end: int) -> tuple[Span | None, Span | None]:
        if start == end:
            return None, None
        limits = [i for i in self._iter_outer(start, end) if self.words[i] in ("LIMIT", "OFFSET")]
        first = limits[0] if limits else end
        order = self._span(start, first) if first > start else None
        return order, self._span(first, end) if limits else None

    def _read_body(self, start: int, end: int) -> Body:
        if start >= end:
            raise NotProven("a query without SELECT", self._offset(start))
        split = self._find_set_operator(start, end)
        if split is not None:
            return self._read_set_operation(start, split, end)
        if self._is("(", start) and self._closing[start] == end - 1:
            return self._read_query(start + 1, end - 1)
        if self.words[start] != "SELECT":
            raise NotProven(f"{self.tokens[start].text} is not understood", self.tokens[start].start)
        return self._read_block(start, end)

    def _find_set_operator(self, start: int, end: int) -> int | None:
        """The operator that is applied last: the last of the weakest ones."""
        operators = [i for i in self._iter_outer(start, end) if self._is_set_operator(i)]
        weak = [i for i in operators if self.words[i] != "INTERSECT"]
        return next(reversed(weak or operators), None)

    def _is_set_operator(self, index: int) -> bool:
        # `* EXCEPT (a, b)` leaves columns out.
        return self.words[index] in _SET_OPERATORS and not (index and self.tokens[index - 1].text in ("*", "."))

    def _read_set_operation(self, start: int, split: int, end: int) -> SetOperation:
        right = split + 1
        keeps_duplicates = self._word(right) == "ALL"
        right += self._word(right) in ("ALL", "DISTINCT")
        if self._word(right) == "BY":
            raise NotProven("this set operation is not understood", self.tokens[split].start)
        operator = _SET_OPERATORS[self.words[split]]
        left_body, right_body = self._read_body(start, split), self._read_body(right, end)
        return SetOperation(self._span(start, end), operator, keeps_duplicates, left_body, right_body)  # type: ignore[arg-type]

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _read_block(self, start: int, end: int) -> Block:
        first = start + 1
        is_distinct = self._word(first) == "DISTINCT"
        first += self._word(first) in ("ALL", "DISTINCT")
        from_ = self._find_from(first, end)
        clauses = self._split_clauses(from_ + 1 if from_ < end else end, end)
        items = tuple(self._iter_list(first, from_))
        if not items:
            raise NotProven("an empty select list", self._offset(start))
        source_end = min([at for at, _ in clauses.values()], default=end)
        sources = tuple(self._read_sources(from_ + 1, source_end)) if from_ < end else ()
        group, style = self._read_group(clauses.get("GROUP"))
        spans = {name: self._span(*clause) for name, clause in clauses.items() if clause[0] < clause[1]}
        return Block(
            self._span(start, end),
            Span(self.tokens[first].start, self.tokens[from_ - 1].end),
            items,
            is_distinct,
            sources,
            self._span(from_ + 1, clauses.get("LATERAL", (0, source_end))[1]) if sources else None,
            spans.get("LATERAL"),
            self._cut_keyword(clauses.get("WHERE"), 1),
            group,
            spans.get("GROUP"),
            style,
            self._cut_keyword(clauses.get("HAVING"), 1),
            spans.get("HAVING"),
            tuple(name for name in clauses if name not in ("LATERAL", "WHERE", "GROUP", "HAVING")),
            self._cut_keyword(clauses.get("WINDOW"), 1),
            spans.get("WINDOW"),
            self._read_subqueries(start, end, sources),
        )

    def _find_from(self, start: int, end: int) -> int:
        for index in self._iter_outer(start, end):
            # `a IS DISTINCT FROM b` compares.
            if self.words[index] == "FROM" and self._word(index - 1) != "DISTINCT" and not self._is(".", index - 1):
                return index
        return end

    def _split_clauses(self, start: int, end: int) -> dict[str, tuple[int, int]]:
        """The clauses behind the sources, by their first word: the tokens from that word on."""
        starts: list[tuple[str, int]] = []
        for index in self._iter_outer(start, end):
            word = self.words[index]
            if self._is(".", index - 1):
                continue
            is_by = word in _BY_CLAUSES and self._word(index + 1) == "BY"
            is_lateral = word == "LATERAL" and self._word(index + 1) == "VIEW" and "LATERAL" not in dict(starts)
            if is_by or word in _CLAUSES or is_lateral:
                if word in dict(starts):
                    raise NotProven(f"{word} twice", self.tokens[index].start)
                starts.append((word, index))
        ends = [*(at for _, at in starts[1:]), end][: len(starts)]
        return {word: (at, until) for (word, at), until in zip(starts, ends, strict=True)}

    def _cut_keyword(self, clause: tuple[int, int] | None, words: int) -> Span | None:
        """The expression of a clause, without the words that it begins with."""
        if clause is None:
            return None
        if clause[0] + words >= clause[1]:
            raise NotProven("an empty clause", self._offset(clause[0]))
        return self._span(clause[0] + words, clause[1])

    def _read_group(self, clause: tuple[int, int] | None) -> tuple[tuple[Span, ...] | None, GroupStyle]:
        if clause is None:
            return None, "plain"
        start, end = clause[0] + 2, clause[1]
        if end - start == 1 and self.words[start] == "ALL":
            return (), "all"
        outer = [self.words[i] for i in self._iter_outer(start, end)]
        sets = self.words[start] in ("ROLLUP", "CUBE", "GROUPING") or "GROUPING" in outer or "WITH" in outer
        called = any(self.words[i] in ("ROLLUP", "CUBE") and self._is("(", i + 1) for i in range(start, end))
        return tuple(self._iter_list(start, end)), "sets" if sets or called else "plain"

    # --- sources --------------------------------------------------------------------------------------------------

    def _read_sources(self, start: int, end: int) -> Iterator[Source]:
        join: JoinType = "FROM"
        is_natural, index = False, start
        while True:
            source, index = self._read_source(join, is_natural, index, end)
            yield source
            if index >= end:
                return
            if self._is(",", index):
                join, is_natural, index = "CROSS", False, index + 1
                continue
            is_natural = self.words[index] == "NATURAL"
            join, index = self._read_join(index, end)

    def _read_join(self, index: int, end: int) -> tuple[JoinType, int]:
        words: list[str] = []
        while index < end and self.words[index] in _JOIN_WORDS:
            words.append(self.words[index])
            index += 1
            if words[-1] == "JOIN":
                break
        if not words or words[-1] != "JOIN":
            raise NotProven("this kind of join is not understood", self._offset(index))
        match [w for w in words[:-1] if w not in ("OUTER", "NATURAL")]:
            case [] | ["INNER"]:
                return "INNER", index
            case ["CROSS"]:
                return "CROSS", index
            case ["LEFT", ("SEMI" | "ANTI") as kind] | [("SEMI" | "ANTI") as kind]:
                return ("SEMI" if kind == "SEMI" else "ANTI"), index
            case ["LEFT"]:
                return "LEFT", index
            case ["RIGHT"]:
                return "RIGHT", index
            case ["FULL"]:
                return "FULL", index
        raise NotProven("this kind of join is not understood", self._offset(index))

    def _read_source(self, join: JoinType, by_name: bool, start: int, end: int) -> tuple[Source, int]:
        if start >= end or self.words[start] in _OPAQUE_SOURCES:
            raise NotProven("this source is not understood", self._offset(start))
        relation: Query | str
        if self._is("(", start):
            index = self._closing[start] + 1
            if self.words[start + 1] not in ("SELECT", "WITH") and not self._is("(", start + 1):
                raise NotProven("this source is not understood", self._offset(start))
            relation = self._read_query(start + 1, index - 1)
        else:
            relation, index = self._read_name(start, end)
        span, behind = self._span(start, index), index
        alias, columns, index = self._read_alias(index, end, relation)
        has_alias, named = index > behind, self._span(start, index)
        if index < end and self.words[index] in _AFTER_SOURCE:
            raise NotProven(self.words[index], self.tokens[index].start)
        until = self._find_source_end(index, end)
        condition: Span | None = None
        using: tuple[str, ...] = ()
        if self._word(index) == "ON" and index < until:
            condition = self._span(index + 1, until)
        elif self._word(index) == "USING" and index < until:
            by_name, using = True, self._read_names(index + 1)
        elif index != until:
            raise NotProven("this source is not understood", self._offset(index))
        return Source(join, span, relation, alias, condition, by_name, using, has_alias, columns, named), until

    def _read_names(self, opening: int) -> tuple[str, ...]:
        """The names in brackets."""
        if not self._is("(", opening):
            raise NotProven("a list of columns that is not understood", self._offset(opening))
        names = [t for t in self.tokens[opening + 1 : self._closing[opening]] if t.text != ","]
        return tuple(strip_quotes(name) for name in names)

    def _read_name(self, index: int, end: int) -> tuple[str, int]:
        parts = [strip_quotes(self.tokens[index])]
        if self.tokens[index].kind not in ("word", "quoted"):
            raise NotProven("this source is not understood", self._offset(index))
        index += 1
        while index + 1 < end and self._is(".", index):
            parts.append(strip_quotes(self.tokens[index + 1]))
            index += 2
        if self._is("(", index) and index < end:
            raise NotProven(f"{parts[-1]}() is a table function", self._offset(index))
        if index < end and self.words[index] in ("VERSION", "TIMESTAMP", "FOR"):
            raise NotProven(f"{parts[-1]} is read at a version of its own", self._offset(index))
        return ".".join(parts).lower(), index

    def _read_alias(self, index: int, end: int, relation: Query | str) -> tuple[str, tuple[str, ...], int]:
        """The alias of a source, the names that it gives to its columns, and what comes behind."""
        has_as = index < end and self.words[index] == "AS"
        index += has_as
        free = index < end and self.tokens[index].kind in ("word", "quoted")
        named = free and (has_as or not self._ends_source(index))
        if not named:
            return (relation.rpartition(".")[2] if isinstance(relation, str) else ""), (), index
        alias = strip_quotes(self.tokens[index]).lower()
        index += 1
        if index < end and self._is("(", index):
            return alias, self._read_names(index), self._closing[index] + 1
        return alias, (), index

    def _ends_source(self, index: int) -> bool:
        word = self.words[index]
        return word in ("ON", "USING") or word in _AFTER_SOURCE or self._begins_join(index)

    def _begins_join(self, index: int) -> bool:
        """Whether words from here on are those of a join: `left(x, 2)` is a function."""
        while self._word(index) in _JOIN_WORDS:
            if self.words[index] == "JOIN":
                return True
            index += 1
        return False

    def _find_source_end(self, start: int, end: int) -> int:
        for index in self._iter_outer(start, end):
            if self._is(",", index) or (self.words[index] in _JOIN_WORDS and self._begins_join(index)):
                return index
        return end

    # --- subqueries and lists -------------------------------------------------------------------------------------

    def _read_subqueries(self, start: int, end: int, sources: tuple[Source, ...]) -> tuple[Query, ...]:
        """The outermost queries in brackets that are not sources of the block."""
        skipped = [s.span for s in sources]
        queries: list[Query] = []
        index = start
        while index < end:
            token = self.tokens[index]
            is_query = self._is("(", index) and self._word(index + 1) in ("SELECT", "WITH")
            if is_query and not any(span.start <= token.start < span.end for span in skipped):
                queries.append(self._read_query(index + 1, self._closing[index]))
                index = self._closing[index]
            index += 1
        return tuple(queries)

    def _iter_list(self, start: int, end: int) -> Iterator[Span]:
        """The parts of a list between commas."""
        begin = start
        for index in self._iter_outer(start, end):
            if self._is(",", index):
                if begin == index:
                    raise NotProven("an empty part of a list", self._offset(index))
                yield self._span(begin, index)
                begin = index + 1
        if begin < end:
            yield self._span(begin, end)

    def _iter_outer(self, start: int, end: int) -> Iterator[int]:
        """The tokens outside of brackets."""
        index = start
        while index < end:
            yield index
            index = self._closing.get(index, index) + 1

    def _span(self, start: int, end: int) -> Span:
        return Span(self.tokens[start].start, self.tokens[end - 1].end)

    def _offset(self, index: int) -> int | None:
        return self.tokens[index].start if 0 <= index < len(self.tokens) else None

    def _is(self, symbol: str, index: int) -> bool:
        return 0 <= index < len(self.tokens) and self.tokens[index].text == symbol and self._kind(index) == "symbol"

    def _kind(self, index: int) -> str:
        return self.tokens[index].kind

    def _word(self, index: int) -> str:
        return self.words[index] if 0 <= index < len(self.words) else ""


def tokens_within(text: str, span: Span) -> list[Token]:
    """The tokens of a part of a text, at their places in the whole."""
    return [
        Token(t.kind, t.text, t.start + span.start, t.end + span.start)
        for t in tokenize_code(text[span.start : span.end])
    ]


def split_tokens(tokens: Sequence[Token]) -> list[list[Token]]:
    """The parts of a list between its commas, those in brackets aside; empty parts are left out."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def fold(text: str) -> str:
    """An expression as its tokens, in one letter case, without quotes around names: two that are equal so are one."""
    folded = ""
    for token in tokenize_code(text):
        name = strip_quotes(token).lower() if token.kind in ("word", "quoted") else token.text
        is_joined = token.text == "." or folded.endswith(".") or not folded
        folded += name if is_joined else f" {name}"
    return folded
