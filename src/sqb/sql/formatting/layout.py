"""Where lines break. A list that fits and that its author wrote on one line stays there; else each item has its line.

Pieces are put down one after the other, each with what comes before it: nothing, a space, or a new line. So whatever
happens here, the pieces stay what they are and in their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sqb.sql.formatting.clauses import Clause, begins_query, iter_flat, match_brackets, split_clauses
from sqb.sql.formatting.pieces import Comment, Piece
from sqb.sql.formatting.settings import FormatSettings
from sqb.sql.formatting.spacing import Spacing

_TOO_WIDE = 1_000_000


class Layout:
    """Puts the pieces of one text down."""

    def __init__(self, pieces: Sequence[Piece], texts: Sequence[str], settings: FormatSettings) -> None:
        self.pieces, self.texts, self.settings = pieces, texts, settings
        self.closing = match_brackets(pieces)
        self.spacing = Spacing(pieces)
        self.out: list[str] = []
        self.column = 0
        # The depth of the line that was begun on purpose; what had to go on below it is one deeper.
        self.base = 0
        self.at_start = True
        self.has_to_break = False

    def run(self) -> str:
        """The whole text."""
        end = len(self.pieces) - 1
        if end > 0:
            self._put_query(0, end)
        last = self.pieces[end]
        if last.before:
            self.new_line(0, blank=last.before[0].has_blank_before)
            self._put_comments_above(last.before)
        return "".join(self.out)

    # --- putting down -------------------------------------------------------------------------------------------------

    def new_line(self, depth: int, blank: bool = False) -> None:
        """Begin a line at a depth; at the start of a line only the depth changes."""
        self.base = depth
        self._break(depth, blank)

    def _break(self, depth: int, blank: bool = False) -> None:
        self.has_to_break = False
        if self.out and not self.at_start:
            self.out.append("\n\n" if blank else "\n")
        elif self.out and self.at_start and self.out[-1].isspace() and "\n" not in self.out[-1]:
            self.out.pop()
        self.column = depth * self.settings.indent
        if self.column:
            self.out.append(" " * self.column)
        self.at_start = True

    def put(self, index: int) -> None:
        """Put down one piece with its comments."""
        piece = self.pieces[index]
        if piece.before:
            if not self.at_start and (self.has_to_break or any(c.is_breaking for c in piece.before)):
                self._break(self.base + 1)
            self._put_comments_above(piece.before)
        if self.has_to_break and not self.at_start:
            self._break(self.base + 1)
        if (not self.at_start and index and self.spacing.has_space(index)) or (
            not self.at_start and piece.before and not self.out[-1].endswith((" ", "\n"))
        ):
            self._write(" ")
        self._write(self.texts[index])
        for comment in piece.after:
            self._write(" " + comment.text)
            self.has_to_break = self.has_to_break or comment.is_breaking

    def _put_comments_above(self, comments: Sequence[Comment]) -> None:
        for place, comment in enumerate(comments):
            if not self.at_start:
                self._write(" ")
            self._write(comment.text)
            if comment.is_breaking:
                follows = comments[place + 1] if place + 1 < len(comments) else None
                depth = self.column_depth
                self._break(depth, blank=follows is not None and follows.has_blank_before)

    @property
    def column_depth(self) -> int:
        """The depth of the line that is being written."""
        line = (
            "".join(self.out).rpartition("\n")[2] if len(self.out) < 50 else "".join(self.out[-50:]).rpartition("\n")[2]
        )
        return (len(line) - len(line.lstrip())) // self.settings.indent

    def _write(self, text: str) -> None:
        if not text:
            return
        self.out.append(text)
        newline = text.rfind("\n")
        self.column = len(text) - newline - 1 if newline >= 0 else self.column + len(text)
        self.at_start = False

    # --- measuring ----------------------------------------------------------------------------------------------------

    def measure(self, start: int, end: int) -> int:
        """How wide pieces are on one line; too wide for any where they cannot stand on one."""
        width = 0
        for index in range(start, end):
            piece = self.pieces[index]
            before = piece.before if index > start else []
            after = piece.after if index + 1 < end else []
            if "\n" in piece.text or any(c.is_breaking for c in (*before, *after)):
                return _TOO_WIDE
            width += len(piece.text) + (1 if index > start and self.spacing.has_space(index) else 0)
            width += sum(len(c.text) + 1 for c in (*before, *piece.after))
            if index > start and self.is_broken(index, start, end):
                return _TOO_WIDE
        return width

    def is_broken(self, index: int, start: int, end: int) -> bool:
        """Whether the author broke a line where a list, a query or a condition has a place for it."""
        piece, before = self.pieces[index], self.pieces[index - 1]
        if not piece.is_on_new_line:
            return False
        if before.text in ("(", "["):
            return True
        words = ("AND", "OR", "WHEN", "ELSE", "SELECT", "FROM", "WHERE", "WITH", "UNION", "GROUP", "ORDER", "HAVING")
        if piece.word in words or before.word in ("SELECT", "WHERE", "BY", "AND", "OR", "DISTINCT"):
            return True
        return before.text == "," and self._is_in_select(index)

    def _is_in_select(self, index: int) -> bool:
        depth = 0
        for other in range(index - 1, -1, -1):
            text = self.pieces[other].text
            if text in (")", "]"):
                depth += 1
            elif text in ("(", "["):
                if depth == 0:
                    return False
                depth -= 1
            elif depth == 0 and self.pieces[other].word in ("SELECT", "BY"):
                return True
            elif depth == 0 and self.pieces[other].word in ("FROM", "WHERE"):
                return False
        return False

    def fits(self, start: int, end: int) -> bool:
        """Whether pieces can go on this line."""
        space = 1 if start and not self.at_start and self.spacing.has_space(start) else 0
        return self.column + space + self.measure(start, end) <= self.settings.line_length

    def put_flat(self, start: int, end: int) -> None:
        """Put pieces down without a line of their own."""
        for index in range(start, end):
            self.put(index)

    # --- queries ------------------------------------------------------------------------------------------------------

    def _put_query(self, start: int, end: int) -> None:
        depth = self.base
        if self.fits(start, end):
            self.put_flat(start, end)
            return
        for number, clause in enumerate(split_clauses(self.pieces, self.closing, start, end)):
            if number:
                is_after_with = self._is_after_with(clause, start)
                self.new_line(depth, blank=is_after_with or self._has_blank(clause.start))
            self._put_clause(clause, depth)

    def _is_after_with(self, clause: Clause, start: int) -> bool:
        return self.pieces[start].word == "WITH" and clause.kind == "select" and self._is_first_select(clause, start)

    def _is_first_select(self, clause: Clause, start: int) -> bool:
        flat = iter_flat(self.pieces, self.closing, start, clause.start)
        return not any(self.pieces[i].word == "SELECT" for i in flat)

    def _has_blank(self, index: int) -> bool:
        piece = self.pieces[index]
        return piece.before[0].has_blank_before if piece.before else piece.has_blank_before

    def _put_clause(self, clause: Clause, depth: int) -> None:
        match clause.kind:
            case "with":
                self._put_with(clause, depth)
            case "select" | "list":
                self.put_flat(clause.start, clause.head)
                self._put_list(clause.head, clause.end, depth + 1)
            case "condition":
                self.put_flat(clause.start, clause.head)
                self._put_condition(clause.head, clause.end, depth)
            case "from" | "join":
                self.put_flat(clause.start, clause.head)
                self._put_source(clause.head, clause.end, depth)
            case _:
                self._put_expression(clause.start, clause.end, depth)

    def _put_with(self, clause: Clause, depth: int) -> None:
        self.put_flat(clause.start, clause.head)
        for number, (start, end) in enumerate(self._split_list(clause.head, clause.end)):
            if number:
                self.new_line(depth, blank=True)
            self._put_expression(start, end, depth)

    def _split_list(self, start: int, end: int) -> list[tuple[int, int]]:
        """The spans between commas, each with the comma that ends it."""
        spans, begin = [], start
        for index in iter_flat(self.pieces, self.closing, start, end):
            if self.pieces[index].text == ",":
                spans.append((begin, index + 1))
                begin = index + 1
        if begin < end:
            spans.append((begin, end))
        return spans

    def _put_list(self, start: int, end: int, depth: int) -> None:
        """The items of a list: on this line, or each on its own."""
        if start >= end:
            return
        is_broken = self.is_broken(start, start - 1, end) if start else False
        if not is_broken and self.fits(start, end):
            self.put_flat(start, end)
            return
        spans = self._split_list(start, end)
        is_leading = self.settings.commas == "leading"
        for number, (begin, stop) in enumerate(spans):
            ends_in_comma = self.pieces[stop - 1].text == ","
            cut = stop - 1 if is_leading and ends_in_comma else stop
            if not (is_leading and number):
                self.new_line(depth, blank=bool(number) and self._has_blank(begin))
            self._put_expression(begin, cut, depth)
            if cut < stop:
                self.new_line(depth)
                self.put(cut)

    def _put_source(self, start: int, end: int, depth: int) -> None:
        """What follows FROM or JOIN: tables, and the condition of a join."""
        if self.fits(start, end):
            self.put_flat(start, end)
            return
        flat = list(iter_flat(self.pieces, self.closing, start, end))
        on = next((i for i in flat if self.pieces[i].word == "ON"), end)
        spans = self._split_list(start, on)
        for number, (begin, stop) in enumerate(spans):
            if number:
                self.new_line(depth + 1)
            self._put_expression(begin, stop, depth + (1 if len(spans) > 1 and number else 0))
        if on == end:
            return
        if not (self.fits(on, end) and not self.pieces[on].is_on_new_line):
            self.new_line(depth + 1)
        if self.fits(on, end):
            self.put_flat(on, end)
            return
        self.put(on)
        self._put_terms(on + 1, end, depth + 2)

    def _put_condition(self, start: int, end: int, depth: int) -> None:
        """What follows WHERE: on its line, or each term on its own below it."""
        is_broken = self.is_broken(start, start - 1, end)
        if not is_broken and self.fits(start, end):
            self.put_flat(start, end)
            return
        if len(self._split_terms(start, end)) > 1 or is_broken:
            self.new_line(depth + 1)
            self._put_terms(start, end, depth + 1)
        else:
            self._put_expression(start, end, depth)

    def _split_terms(self, start: int, end: int) -> list[tuple[int, int]]:
        """The spans before AND and OR; those of BETWEEN and within CASE are no ends."""
        spans, begin = [], start
        between = cases = 0
        for index in iter_flat(self.pieces, self.closing, start, end):
            word = self.pieces[index].word
            if word == "CASE":
                cases += 1
            elif word == "END" and cases:
                cases -= 1
            elif cases:
                continue
            elif word == "BETWEEN":
                between += 1
            elif word == "AND" and between:
                between -= 1
            elif word in ("AND", "OR") and index > begin:
                spans.append((begin, index))
                begin = index
        spans.append((begin, end))
        return spans

    def _put_terms(self, start: int, end: int, depth: int) -> None:
        for number, (begin, stop) in enumerate(self._split_terms(start, end)):
            if number:
                self.new_line(depth, blank=False)
            self._put_plain(begin, stop, depth)

    # --- expressions --------------------------------------------------------------------------------------------------

    def _put_expression(self, start: int, end: int, depth: int) -> None:
        if self.fits(start, end):
            self.put_flat(start, end)
            return
        terms = self._split_terms(start, end)
        if len(terms) > 1:
            for number, (begin, stop) in enumerate(terms):
                if number:
                    self.new_line(depth + 1)
                self._put_plain(begin, stop, depth if not number else depth + 1)
            self.base = depth
            return
        self._put_plain(start, end, depth)

    def _put_plain(self, start: int, end: int, depth: int) -> None:
        """Pieces one after the other; brackets and CASE that do not fit are opened."""
        index = start
        while index < end:
            close = self.closing[index]
            if index < close < end:
                if self._fits_bracket(index, close, end):
                    self.put_flat(index, close + 1)
                else:
                    self._put_bracket(index, close, depth)
                index = close + 1
            elif self.pieces[index].word == "CASE" and (stop := self._find_end(index, end)) is not None:
                if self.fits(index, stop + 1):
                    self.put_flat(index, stop + 1)
                else:
                    self._put_case(index, stop, depth)
                index = stop + 1
            else:
                self.put(index)
                index += 1

    def _fits_bracket(self, index: int, close: int, end: int) -> bool:
        """Whether a bracket fits, with what is bound to follow it: a comma, or an alias."""
        rest = close + 1
        while rest < end and rest <= close + 3 and self.closing[rest] == rest and self.pieces[rest].text != "(":
            rest += 1
        if rest < end:
            rest = close + 1
        return self.fits(index, rest) if self.measure(close, rest) < _TOO_WIDE else self.fits(index, close + 1)

    def _put_bracket(self, index: int, close: int, depth: int) -> None:
        """Open a bracket: what is in it on lines of its own."""
        self.put(index)
        start = index + 1
        if start == close:
            self.put(close)
            return
        if begins_query(self.pieces, start, close):
            self.new_line(depth + 1)
            self._put_query(start, close)
        elif self._is_window(start, close):
            self._put_window(start, close, depth + 1)
        elif len(self._split_list(start, close)) > 1:
            self._put_items(start, close, depth + 1)
        else:
            self.new_line(depth + 1)
            if self.fits(start, close):
                self.put_flat(start, close)
            else:
                self._put_terms(start, close, depth + 1)
        self.new_line(depth)
        self.put(close)

    def _put_items(self, start: int, end: int, depth: int) -> None:
        for number, (begin, stop) in enumerate(self._split_list(start, end)):
            self.new_line(depth, blank=bool(number) and self._has_blank(begin))
            self._put_expression(begin, stop, depth)

    def _is_window(self, start: int, end: int) -> bool:
        flat = [self.pieces[i].word for i in iter_flat(self.pieces, self.closing, start, end)]
        return any(a in ("PARTITION", "ORDER") and b == "BY" for a, b in itertools.pairwise(flat))

    def _put_window(self, start: int, end: int, depth: int) -> None:
        """PARTITION BY, ORDER BY and the frame, each on its line."""
        flat = list(iter_flat(self.pieces, self.closing, start, end))
        begins = [
            i
            for n, i in enumerate(flat)
            if (
                self.pieces[i].word in ("PARTITION", "ORDER")
                and n + 1 < len(flat)
                and self.pieces[flat[n + 1]].word == "BY"
            )
            or (self.pieces[i].word in ("ROWS", "RANGE") and i > start)
        ]
        edges = [*sorted({start, *begins}), end]
        for begin, stop in itertools.pairwise(edges):
            self.new_line(depth)
            self._put_expression(begin, stop, depth)

    def _find_end(self, index: int, end: int) -> int | None:
        """The END of a CASE."""
        depth = 0
        for other in iter_flat(self.pieces, self.closing, index, end):
            word = self.pieces[other].word
            depth += (word == "CASE") - (word == "END")
            if word == "END" and depth == 0:
                return other
        return None

    def _put_case(self, index: int, stop: int, depth: int) -> None:
        """CASE with every WHEN on its line."""
        begins, cases = [], 0
        for other in iter_flat(self.pieces, self.closing, index + 1, stop):
            word = self.pieces[other].word
            cases += (word == "CASE") - (word == "END")
            if cases == 0 and word in ("WHEN", "ELSE"):
                begins.append(other)
        edges = [*begins, stop]
        self.put_flat(index, edges[0])
        for begin, end in itertools.pairwise(edges):
            self.new_line(depth + 1)
            self._put_expression(begin, end, depth + 1)
        self.new_line(depth)
        self.put(stop)
