"""`@@variables`, `@macros(…)` and `__ref("…")` become plain SQL; every place can still be traced to the file.

Expansion works on tokens, so nothing inside a string or a comment is ever touched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from sqb.light_dataclass import dataclass
from sqb.sql.text.lexer import Token, find_closing, split_arguments, tokenize, tokenize_code
from sqb.sql.text.spans import Piece, trace_offset
from sqb.types.literals import format_literal

REFERENCE_CALLS: Mapping[str, str] = {
    "__ref": "model",
    "__source": "source",
    "__seed": "seed",
    "__dbt_ref": "dbt",
}
_MAX_DEPTH = 25


class ExpansionProblem(Exception):
    """Something in the text cannot be expanded; `start` and `end` are the place in the original text."""

    def __init__(self, kind: str, message: str, start: int, end: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.start, self.end, self.hint = kind, message, start, end, hint


@dataclass(slots=True)
class Expanded:
    """SQL without variables and macros, and the way back to the file it came from."""

    text: str
    pieces: tuple[Piece, ...]
    # References written as __ref("x"), by their offset in the expanded text.
    forced: Mapping[int, str] = field(default_factory=dict)
    macros: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    # The project's functions that it called, and the hashes of those in Python, which it still calls.
    functions: tuple[str, ...] = ()
    python: Mapping[str, str] = field(default_factory=dict)

    def trace_origin(self, offset: int) -> int:
        """The offset in the file that an offset of the expanded text came from."""
        return trace_offset(self.pieces, offset)


@dataclass(frozen=True, slots=True)
class ExpansionContext:
    """The values of names: variables as SQL, the environment, and macros."""

    variable: Callable[[str], str | None]
    environment: Callable[[str], str | None]
    macro: Callable[[str], Callable[..., object] | None]
    known_variables: Sequence[str] = ()
    known_macros: Sequence[str] = ()
    # Puts the project's functions in the place of their calls, where those are to be replaced.
    inline: Callable[[Expanded], Expanded] | None = None


def expand(text: str, start: int, context: ExpansionContext) -> Expanded:
    """Expand the query that begins at `start` of a file's text."""
    if "@" not in text[start:] and "__" not in text[start:]:
        expanded = Expanded(text[start:], (Piece(0, start, len(text), True),))
    else:
        expanded = _Expansion(text, start, context).run()
    if "${" in expanded.text:
        _refuse_substitution(expanded)
    return context.inline(expanded) if context.inline is not None else expanded


def _refuse_substitution(expanded: Expanded) -> None:
    """Refuse `${…}` where it is code: Spark would put a setting or a variable of its own process in its place."""
    tokens = tokenize_code(expanded.text)
    for token, after in itertools.pairwise(tokens):
        if (token.text, after.text) == ("$", "{") and token.end == after.start:
            end = expanded.text.find("}", after.end)
            end = end + 1 if end >= 0 else after.end
            name = expanded.text[after.end : end - 1]
            hint = "write @@name and give it a value in [vars] or with --vars; @@ENV:NAME is the environment's"
            if name.lower().startswith("env:") and name[4:].isidentifier():
                hint = f"write @@ENV:{name[4:]}"
            first, last = expanded.trace_origin(token.start), expanded.trace_origin(end - 1) + 1
            raise ExpansionProblem("substitution", "${…} is not replaced by anything", first, last, hint)


def has_substitution(text: str) -> bool:
    """Whether a string of a query holds `${…}`, which is text there."""
    return "${" in text and any(t.kind == "string" and "${" in t.text for t in tokenize_code(text))


class _Expansion:
    """One pass over one text."""

    def __init__(self, text: str, start: int, context: ExpansionContext) -> None:
        self.text, self.start, self.context = text, start, context
        self.out: list[str] = []
        self.length = 0
        self.pieces: list[Piece] = []
        self.forced: dict[int, str] = {}
        self.macros: list[str] = []
        self.environment: dict[str, str] = {}

    def run(self) -> Expanded:
        tokens = [t for t in tokenize(self.text, self.start) if t.kind != "comment"]
        copied = self.start
        index = 0
        while index < len(tokens):
            token = tokens[index]
            step = self._find_replacement(tokens, index)
            if step is None:
                index += 1
                continue
            replacement, last, forced = step
            self._copy(copied, token.start)
            if token.kind == "macro":
                self._insert_result(replacement, token.start, tokens[last].end)
            else:
                self._insert(replacement, token.start, tokens[last].end, forced)
            copied = tokens[last].end
            index = last + 1
        self._copy(copied, len(self.text))
        return Expanded("".join(self.out), tuple(self.pieces), self.forced, tuple(self.macros), self.environment)

    def _copy(self, begin: int, end: int) -> None:
        if end > begin:
            self.pieces.append(Piece(self.length, begin, end, True))
            self.out.append(self.text[begin:end])
            self.length += end - begin

    def _insert_result(self, text: str, begin: int, end: int) -> None:
        """A macro's result, in which references may be written as calls too."""
        tokens = [t for t in tokenize(text) if t.kind != "comment"] if "__" in text else []
        copied = 0
        for index, token in enumerate(tokens):
            try:
                step = self._expand_reference(tokens, index) if token.kind == "word" else None
            except ExpansionProblem as problem:
                raise ExpansionProblem(problem.kind, problem.message, begin, end, problem.hint) from None
            if step is not None:
                name, last, forced = step
                self._insert(text[copied : token.start], begin, end)
                self._insert(name, begin, end, forced)
                copied = tokens[last].end
        self._insert(text[copied:], begin, end)

    def _insert(self, text: str, begin: int, end: int, forced: str | None = None) -> None:
        if forced:
            self.forced[self.length] = forced
        if text:
            self.pieces.append(Piece(self.length, begin, end, False))
            self.out.append(text)
            self.length += len(text)

    def _find_replacement(self, tokens: list[Token], index: int) -> tuple[str, int, str | None] | None:
        """Find the replacement of the token at `index`: the text, the last token it replaces, and a forced kind."""
        token = tokens[index]
        if token.kind == "variable":
            return self._expand_variable(token), index, None
        if token.kind == "macro":
            return self._expand_macro_call(tokens, index)
        return self._expand_reference(tokens, index) if token.kind == "word" else None

    def _expand_variable(self, token: Token) -> str:
        if token.text.startswith("@@ENV:"):
            name = token.text.removeprefix("@@ENV:")
            value = self.context.environment(name)
            if value is None:
                raise ExpansionProblem(
                    "variable",
                    f"the environment variable {name} is not set",
                    token.start,
                    token.end,
                    f"export {name}, or give the model a default through [vars]",
                )
            self.environment[name] = value
            return format_literal(value)
        name = token.text.removeprefix("@@")
        sql = self.context.variable(name)
        if sql is None:
            raise ExpansionProblem("unknown variable", name, token.start, token.end)
        return sql

    def _expand_macro_call(self, tokens: list[Token], index: int) -> tuple[str, int, str | None]:
        token = tokens[index]
        name = token.text.removeprefix("@")
        macro = self.context.macro(name)
        if macro is None:
            raise ExpansionProblem("unknown macro", name, token.start, token.end)
        if index + 1 >= len(tokens) or tokens[index + 1].text != "(":
            raise ExpansionProblem(
                "macro", f"@{name} is called without parentheses", token.start, token.end, f"write @{name}()"
            )
        end = find_closing(tokens, index + 1)
        if end is None:
            raise ExpansionProblem("macro", f"the call of @{name} is never closed", token.start, token.end)
        argument_texts = split_arguments(self.text, tokens, index + 1, end)
        return self._apply_macro(name, macro, argument_texts, token, tokens[end].end, 0), end, None

    def _apply_macro(
        self, name: str, macro: Callable[..., object], argument_texts: list[str], token: Token, end: int, depth: int
    ) -> str:
        if depth > _MAX_DEPTH:
            raise ExpansionProblem("macro", f"{token.text} calls macros without end", token.start, token.end)
        if name not in self.macros:
            self.macros.append(name)
        inner = [self._expand_nested(argument, token, end, depth) for argument in argument_texts]
        try:
            result = macro(*inner)
        except (Exception, SystemExit) as error:
            raise ExpansionProblem(
                "macro", f"@{name} failed: {type(error).__name__}: {error}", token.start, end
            ) from error
        if not isinstance(result, str):
            raise ExpansionProblem(
                "macro", f"@{name} returned {type(result).__name__}, not text", token.start, end, "return a str of SQL"
            )
        return self._expand_nested(result, token, end, depth + 1)

    def _expand_nested(self, text: str, token: Token, end: int, depth: int) -> str:
        """Text that came out of a macro or goes into one, expanded; its places are those of the outer call."""
        if depth > _MAX_DEPTH:
            raise ExpansionProblem("macro", f"{token.text} calls macros without end", token.start, token.end)
        if "@" not in text:
            return text
        tokens = [t for t in tokenize(text) if t.kind != "comment"]
        out, copied, index = [], 0, 0
        while index < len(tokens):
            current = tokens[index]
            if current.kind == "variable":
                out += [text[copied : current.start], self._expand_variable(_move_token(current, token))]
                copied, index = current.end, index + 1
            elif current.kind == "macro":
                name = current.text.removeprefix("@")
                macro = self.context.macro(name)
                close = (
                    find_closing(tokens, index + 1)
                    if index + 1 < len(tokens) and tokens[index + 1].text == "("
                    else None
                )
                if macro is None:
                    raise ExpansionProblem("unknown macro", name, token.start, end)
                if close is None:
                    raise ExpansionProblem("macro", f"@{name} is called without parentheses", token.start, end)
                argument_texts = split_arguments(text, tokens, index + 1, close)
                out += [
                    text[copied : current.start],
                    self._apply_macro(name, macro, argument_texts, token, end, depth + 1),
                ]
                copied, index = tokens[close].end, close + 1
            else:
                index += 1
        return "".join([*out, text[copied:]])

    def _expand_reference(self, tokens: list[Token], index: int) -> tuple[str, int, str | None] | None:
        """`__ref("staging.orders")` as the name it holds, remembered as a reference to that kind of node only."""
        if tokens[index].text.lower() not in REFERENCE_CALLS:
            return None
        if index + 1 >= len(tokens) or tokens[index + 1].text != "(":
            return None
        name = tokens[index + 2] if index + 3 < len(tokens) and tokens[index + 3].text == ")" else tokens[index + 1]
        call = tokens[index]
        if name.kind not in ("string", "word", "quoted"):
            message, hint = f"{call.text}(…) takes one name", f'write {call.text}("folder.name")'
            raise ExpansionProblem("reference", message, call.start, call.end, hint)
        bare = name.text.strip("'\"`")
        quoted = ".".join(f"`{part}`" for part in bare.split("."))
        return quoted, index + 3, REFERENCE_CALLS[call.text.lower()]


def _move_token(token: Token, to: Token) -> Token:
    return Token(token.kind, token.text, to.start, to.end)
