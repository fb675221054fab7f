"""The header of a model file, in either of its two spellings: `-- @key: value` lines or a `MODEL (…);` block.

Gives settings by canonical key, as written; what they may be is the business of `keys`.
"""

from __future__ import annotations

import re

from sqb.errors.base import Errors, SqbError
from sqb.errors.project import BadHeader, Contradiction, DuplicateKey
from sqb.names import At, find_nearest
from sqb.project.config.located import build_unknown_key
from sqb.project.models.contract import read_contract
from sqb.project.models.grammar import (
    BOM,
    Malformed,
    Span,
    build_call_leaf,
    build_statement_leaf,
    find_block_end,
    find_inside,
    iter_nesting,
    iter_tokens,
    locate_span,
    read_items,
    read_nested_leaf,
    read_pairs,
    read_text_leaf,
    read_typed_leaf,
    split,
    trim,
)
from sqb.project.models.keys import WORDS, Key, Shape, find_key
from sqb.project.models.other_tools import explain_key
from sqb.project.values import Call, Header, Setting, Value

_DIRECTIVE = re.compile(r"--[ \t]*@([A-Za-z_]\w*)[ \t]*(:?)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_WHITESPACE = re.compile(r"\s*")
_COLUMN = re.compile(r"(\w+|`[^`]+`)\s*[:=]\s*(\S.*)")
_ONE_HEADER = "a file has one header: `-- @key: value` lines or a `MODEL (…);` block"


def parse_header(text: str, file: str, errors: Errors) -> Header:
    """The header of a model file; problems are collected, and what could be read is returned."""
    return _HeaderReader(text, file, errors).read()


def _is_one_edit_apart(word: str, other: str) -> bool:
    if word == other or abs(len(word) - len(other)) > 1:
        return False
    for i in range(max(len(word), len(other))):
        if word[i : i + 1] != other[i : i + 1]:
            rest, other_rest = word[i:], other[i:]
            swapped = other_rest[1:2] + other_rest[:1] + other_rest[2:]
            return rest == swapped or rest[1:] in (other_rest, other_rest[1:]) or rest == other_rest[1:]
    return False


class _HeaderReader:
    def __init__(self, text: str, file: str, errors: Errors) -> None:
        self.text = text
        self.file = file
        self.errors = errors
        self.settings: dict[str, Setting] = {}
        self.says_incremental: At | None = None
        self.body_start = len(BOM) if text.startswith(BOM) else 0

    def read(self) -> Header:
        pos, first_directive = self._read_directives(self.body_start)
        block = self._find_block_start(pos)
        if block is not None:
            model = Span(pos, pos + len("MODEL"))
            if first_directive is not None:
                self._report(_ONE_HEADER, model, f"the other one is at {self._locate(first_directive)}")
            directives, self.settings = self.settings, {}
            pos = self._read_block_end(self._read_block(pos, block), model)
            self.settings = directives or self.settings
        self._report_late_directives(pos)
        self._expand_incremental()
        return Header(self.settings, self.body_start)

    def _expand_incremental(self) -> None:
        """`incremental` names the cursor and says the kind at once."""
        kind = self.settings.get("kind")
        if self.says_incremental is None:
            return
        if kind is None:
            self.settings["kind"] = Setting("incremental", self.says_incremental)
        elif str(kind.value).lower() != "incremental":
            message = f"`incremental` makes the kind incremental, and `kind` says {kind.value}"
            hint = "remove `kind`; `incremental_strategy` says how rows are written"
            self.errors.add(Contradiction(message, at=kind.at, hint=hint))
            self.settings["kind"] = Setting("incremental", kind.at)

    def _locate(self, span: Span) -> At:
        return locate_span(self.text, span, self.file)

    def _report(self, message: str, span: Span, hint: str | None = None) -> None:
        self.errors.add(BadHeader(message, at=self._locate(span), hint=hint))

    def _build_malformed(self, problem: Malformed) -> SqbError:
        at = self._locate(Span(problem.offset, problem.offset + 1))
        return BadHeader(problem.message, at=at, hint=problem.hint)

    def _find_line_end(self, pos: int) -> int:
        end = self.text.find("\n", pos)
        return len(self.text) if end < 0 else end

    def _find_space_end(self, pos: int) -> int:
        match = _WHITESPACE.match(self.text, pos)
        return match.end() if match else pos

    def _find_comment_end(self, pos: int) -> int:
        """The end of the comment at `pos`; `pos` itself when there is none."""
        if self.text.startswith("--", pos):
            return self._find_line_end(pos)
        if self.text.startswith("/*", pos):
            return find_block_end(self.text, pos) or len(self.text)
        return pos

    def _read_directives(self, pos: int) -> tuple[int, Span | None]:
        """Reads the directive lines above the query; gives where they stop and the first one's place."""
        first = None
        while True:
            pos = self._find_space_end(pos)
            end = self._find_comment_end(pos)
            if end == pos:
                return pos, first
            if self.text.startswith("--", pos) and self._read_directive(pos, end):
                first = first or Span(pos, end)
                self.body_start = min(end + 1, len(self.text))
            pos = end

    def _read_directive(self, start: int, end: int) -> bool:
        """Reads the directive in a comment line; False when the comment is just a comment."""
        match = _DIRECTIVE.match(self.text, start, end)
        if match is None:
            return False
        word, written = Span(*match.span(1)), match.group(1)
        key = find_key(written)
        value = trim(self.text, Span(match.end(), end))
        if key is None:
            # Without a colon it may mention a person; only what looks like a key is taken for one.
            if not match.group(2) and not find_nearest(written, WORDS):
                return False
            self.errors.add(build_unknown_key(written, "the header", WORDS, self._locate(word), explain_key(written)))
            return True
        if key.shape is not Shape.TEXT:
            value = self._strip_comment(value)
        if value.start == value.end and key.shape is Shape.FLAG:
            self._put_setting(key, written, True, self._locate(word))
        elif value.start == value.end or not match.group(2):
            example = self.text[value.start : value.end] or "value"
            self._report(f"`@{written}` has no value", word, f"write `-- @{written}: {example}`")
        else:
            self._read_key(key, written, value, line=True)
        return True

    def _strip_comment(self, value: Span) -> Span:
        for token in iter_tokens(self.text, *value):
            if token.kind == "comment":
                return trim(self.text, Span(value.start, token.start))
        return value

    def _read_key(self, key: Key, written: str, span: Span, line: bool) -> None:
        try:
            self._put_setting(key, written, self._read_value(key, span, line), self._locate(span))
        except Malformed as problem:
            self.errors.add(self._build_malformed(problem))

    def _read_value(self, key: Key, span: Span, line: bool) -> Value:
        match key.shape:
            case Shape.NAMES | Shape.EXPRESSIONS:
                return read_items(self.text, span, read_text_leaf)
            case Shape.CALLS:
                return read_items(self.text, span, self._read_call)
            case Shape.STATEMENTS if find_inside(self.text, span, "["):
                return read_items(self.text, span, build_statement_leaf(self.file))
            case Shape.STATEMENTS:
                return (build_statement_leaf(self.file)(self.text, span),)
            case Shape.COLUMNS:
                return self._read_columns(span, line)
            case Shape.CONTRACT:
                return read_contract(self.text, span)
            case Shape.OPTIONS:
                return read_pairs(self.text, span, read_text_leaf)
            case Shape.MAPPING:
                return read_pairs(self.text, span, read_nested_leaf)
            case Shape.FLAG:
                return read_typed_leaf(self.text, span)
            case _:
                return read_text_leaf(self.text, span)

    def _read_call(self, text: str, span: Span) -> Value:
        """A check; what is none is reported here, where its place among others is known."""
        call = build_call_leaf(self.file)(text, span)
        if not isinstance(call, Call):
            hint = "write its name and its arguments in brackets, such as not_null(id)"
            raise Malformed(f"`{text[span.start : span.end]}` is not a check", span.start, hint)
        return call

    def _read_columns(self, span: Span, line: bool) -> Value:
        """Names, names with descriptions, or on a line of its own one name and its description in plain words."""
        match = _COLUMN.fullmatch(self.text, *span) if line else None
        if match is not None:
            return {match.group(1).strip("`"): read_text_leaf(self.text, Span(*match.span(2)))}
        within = find_inside(self.text, span) or span
        if any(depth == 0 and self.text[t.start] in ":=" for depth, t in iter_nesting(self.text, within)):
            return read_pairs(self.text, span, read_text_leaf)
        return dict.fromkeys(read_items(self.text, span, read_text_leaf), "")

    def _put_setting(self, key: Key, written: str, value: Value, at: At) -> None:
        if written.lower() == "incremental":
            self.says_incremental = at
        before = self.settings.get(key.name)
        if before is None:
            self.settings[key.name] = Setting(value, at)
        elif not key.repeats:
            self._report_duplicate(key, written, before, at)
        elif isinstance(value, dict):
            if before.value.keys() & value.keys():
                self._report_duplicate(key, written, before, at)
            self.settings[key.name] = Setting(before.value | value, before.at)
        else:
            self.settings[key.name] = Setting(before.value + value, before.at)

    def _report_duplicate(self, key: Key, written: str, before: Setting, at: At) -> None:
        message = f"`{written}` sets `{key.name}` again; it is also at {before.at}"
        self.errors.add(DuplicateKey(message, at=at, hint="keep one of the two"))

    def _find_block_start(self, pos: int) -> int | None:
        """Where the entries of a `MODEL (` begin, when the file starts with one."""
        word = _WORD.match(self.text, pos)
        if word is None:
            return None
        paren = self._find_space_end(word.end())
        opened = self.text.startswith("(", paren)
        if word.group().upper() == "MODEL":
            if opened:
                return paren + 1
            self._report("`MODEL` has no `(`", Span(*word.span()), "write `MODEL ( kind table );` above the query")
        elif opened and _is_one_edit_apart(word.group().upper(), "MODEL"):
            self._report(f"there is no `{word.group()} (…)` header", Span(*word.span()), "did you mean 'MODEL'?")
            return paren + 1
        return None

    def _read_block(self, model: int, start: int) -> int:
        """Reads the entries from after the opening parenthesis; gives the offset where they end."""
        end, closed = self._find_block_end(start)
        try:
            entries = split(self.text, Span(start, end))
        except Malformed as problem:
            self.errors.add(self._build_malformed(problem))
            return end
        if not closed:
            ended = self.text.startswith(";", end)
            at = Span(end, end + 1) if ended else Span(model, start)
            self._report("the `MODEL (` block has no `)`", at, "end the header with `);`")
            if not ended:
                # The query is in it too: its text would only be reported as wrong values.
                return end
        for entry in entries:
            self._read_entry(entry)
        return end

    def _find_block_end(self, start: int) -> tuple[int, bool]:
        """Where the block's entries end and whether a `)` is there; its comments are blanked, so places hold."""
        depth = 0
        for token in iter_tokens(self.text, start):
            match token.kind:
                case "comment":
                    gap = re.sub(r"[^\n]", " ", self.text[token.start : token.end])
                    self.text = self.text[: token.start] + gap + self.text[token.end :]
                case "open":
                    depth += 1
                case "close" if depth == 0:
                    return token.start, self.text[token.start] == ")"
                case "close":
                    depth -= 1
                case "mark" if self.text[token.start] == ";":
                    return token.start, False
        return len(self.text), False

    def _read_entry(self, span: Span) -> None:
        word = _WORD.match(self.text, *span)
        if word is None:
            self._report("a key is expected here", Span(span.start, span.start + 1), "write `key value`, then a comma")
            return
        written, key = word.group(), find_key(word.group())
        value = trim(self.text, Span(word.end(), span.end))
        if key is None:
            self.errors.add(
                build_unknown_key(written, "the header", WORDS, self._locate(Span(*word.span())), explain_key(written))
            )
        elif value.start == value.end and key.shape is Shape.FLAG:
            self._put_setting(key, written, True, self._locate(Span(*word.span())))
        elif value.start == value.end:
            self._report(f"`{written}` has no value", Span(*word.span()), f"write `{written} value`")
        elif self.text[value.start] in ":=":
            mark = Span(value.start, value.start + 1)
            self._report(f"`{self.text[value.start]}` does not belong here", mark, f"write `{written} value`")
        else:
            self._read_key(key, written, value, line=False)

    def _read_block_end(self, end: int, model: Span) -> int:
        """Expects the `;` after the block and nothing more of a header; gives where the query begins."""
        self.body_start = pos = end
        if self.text.startswith(")", end):
            self.body_start = pos = end + 1
            while (skipped := self._find_comment_end(self._find_space_end(pos))) != self._find_space_end(pos):
                pos = skipped
            pos = self._find_space_end(pos)
        if self.text.startswith(";", pos):
            self.body_start = pos = pos + 1
        elif self.text.startswith(")", end):
            self._report("the `MODEL (…)` block does not end in `;`", Span(end, end + 1), "end the header with `);`")
        return self._refuse_second(pos, model)

    def _refuse_second(self, pos: int, model: Span) -> int:
        hint = f"the other one is at {self._locate(model)}"
        while (end := self._find_comment_end(start := self._find_space_end(pos))) != start:
            match = _DIRECTIVE.match(self.text, start, end)
            if match and find_key(match.group(1)):
                self._report(_ONE_HEADER, Span(start, end), hint)
            pos = end
        word = _WORD.match(self.text, start)
        if word and word.group().upper() == "MODEL" and self.text.startswith("(", self._find_space_end(word.end())):
            self._report(_ONE_HEADER, Span(*word.span()), hint)
        return start

    def _report_late_directives(self, pos: int) -> None:
        if _DIRECTIVE.search(self.text, pos) is None:
            return
        for token in iter_tokens(self.text, pos):
            match = _DIRECTIVE.match(self.text, token.start, token.end) if token.kind == "comment" else None
            if match and find_key(match.group(1)):
                span = Span(token.start, token.end)
                self._report("directives belong above the query", span, "move this line to the top of the file")
