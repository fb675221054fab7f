"""Templates: the text of a file of dbt's as a tree of what is written in it and what Jinja is to do there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqb.dbt.convert.jinja.expressions import Expression, ExpressionParser, parse_expression
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.project.jinja import iter_blocks

DEFINITIONS = ("macro", "test", "data_test", "snapshot", "docs", "materialization")


@dataclass(frozen=True, slots=True)
class Text:
    """Text that stays as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """`{{ expression }}`."""

    expression: Expression
    line: int


@dataclass(frozen=True, slots=True)
class Set:
    """`{% set names = expression %}`, or with a body up to `endset`; `{% do expression %}` has no names."""

    names: tuple[str, ...]
    value: Expression | None
    body: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class If:
    """`{% if … %}` with its branches; the condition of an `else` is None."""

    branches: tuple[tuple[Expression | None, tuple[Node, ...]], ...]
    line: int


@dataclass(frozen=True, slots=True)
class For:
    """`{% for names in values if condition %}`; `otherwise` is for no values."""

    names: tuple[str, ...]
    values: Expression
    condition: Expression | None
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Definition:
    """A macro, a generic test, a snapshot or a block of docs: what has a name and a body."""

    kind: str
    name: str
    parameters: tuple[tuple[str, Expression | None], ...]
    body: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """A statement that is not known here; reaching it is a problem, having it is not."""

    statement: str
    line: int


Node = Text | Output | Set | If | For | Definition | Unknown


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text, an expression or a statement of a template in order."""

    kind: str
    text: str
    line: int

    @property
    def word(self) -> str:
        """The first word of a statement."""
        return self.text.split(None, 1)[0].split("(")[0] if self.kind == "%" and self.text else ""

    @property
    def rest(self) -> str:
        """What comes after the first word."""
        return self.text[len(self.word) :].strip()


def parse_template(text: str) -> tuple[Node, ...]:
    """The tree of a text; raises Unconvertible where its blocks do not fit together."""
    reader = _Reader(list(_iter_pieces(text)))
    nodes = reader.read_body(())
    return nodes


def _iter_pieces(text: str) -> Iterator[_Piece]:
    pieces: list[_Piece] = []
    strip_next = in_raw = False
    position, line = 0, 1
    for block in iter_blocks(text):
        before = text[position : block.start]
        shown = before.lstrip() if strip_next else before
        inside = block.inside
        is_end_of_raw = block.opening == "{%" and inside.strip(" \t\n-+") == "endraw"
        if in_raw and not is_end_of_raw:
            shown, inside = before + text[block.start : block.end], ""
        elif inside[:1] == "-":
            shown = shown.rstrip()
        if shown:
            pieces.append(_Piece("text", shown, line))
        line += text.count("\n", position, block.start)
        strip_next = inside[-1:] == "-" and not (in_raw and not is_end_of_raw)
        statement = inside.strip("-+" if block.opening != "{#" else "-").strip()
        if block.opening == "{%" and statement in ("raw", "endraw"):
            in_raw = statement == "raw"
        elif not in_raw and block.opening != "{#":
            pieces.append(_Piece(block.opening[1], statement, line))
        line += text.count("\n", block.start, block.end)
        position = block.end
    rest = text[position:]
    pieces.append(_Piece("text", rest.lstrip() if strip_next else rest, line))
    yield from pieces


class _Reader:
    def __init__(self, pieces: list[_Piece]) -> None:
        self._pieces = pieces
        self._next = 0

    def read_body(self, ends: tuple[str, ...]) -> tuple[Node, ...]:
        """The nodes up to a statement with one of these words, which is next then."""
        nodes: list[Node] = []
        while self._next < len(self._pieces):
            piece = self._pieces[self._next]
            if piece.word in ends:
                return tuple(nodes)
            self._next += 1
            if piece.kind == "text":
                nodes.append(Text(piece.text))
                continue
            try:
                nodes.append(self._read_node(piece))
            except Unconvertible as problem:
                raise problem.locate("", piece.line) from None
        if ends:
            opening = ends[-1].removeprefix("end")
            raise Unconvertible(f"`{{% {opening} %}}`", f"it has no `{ends[-1]}`")
        return tuple(nodes)

    def _read_node(self, piece: _Piece) -> Node:
        if piece.kind == "{":
            return Output(parse_expression(piece.text), piece.line)
        match piece.word:
            case "if":
                return self._read_if(piece)
            case "for":
                return self._read_for(piece)
            case "set":
                return self._read_set(piece)
            case "do":
                return Set((), parse_expression(piece.rest), (), piece.line)
            case word if word in DEFINITIONS:
                return self._read_definition(piece)
            case "call" | "filter" as word:
                self.read_body((f"end{word}",))
                self._next += 1
                return Unknown(piece.text, piece.line)
        return Unknown(piece.text, piece.line)

    def _read_if(self, piece: _Piece) -> Node:
        branches: list[tuple[Expression | None, tuple[Node, ...]]] = []
        condition: Expression | None = parse_expression(piece.rest)
        while True:
            body = self.read_body(("elif", "else", "endif"))
            branches.append((condition, body))
            end = self._pieces[self._next]
            self._next += 1
            if end.word == "endif":
                return If(tuple(branches), piece.line)
            condition = parse_expression(end.rest) if end.word == "elif" else None

    def _read_for(self, piece: _Piece) -> Node:
        parser = ExpressionParser(piece.rest)
        names = [parser.read_name()]
        while parser.accept(","):
            names.append(parser.read_name())
        parser.expect("in")
        values = parser.parse_or()
        condition = parser.parse() if parser.accept("if") else None
        parser.expect_end()
        body = self.read_body(("else", "endfor"))
        otherwise: tuple[Node, ...] = ()
        if self._pieces[self._next].word == "else":
            self._next += 1
            otherwise = self.read_body(("endfor",))
        self._next += 1
        return For(tuple(names), values, condition, body, otherwise, piece.line)

    def _read_set(self, piece: _Piece) -> Node:
        parser = ExpressionParser(piece.rest)
        names = [parser.read_name()]
        while parser.accept(","):
            names.append(parser.read_name())
        if parser.accept("="):
            value = parser.parse_tuple()
            parser.expect_end()
            return Set(tuple(names), value, (), piece.line)
        parser.expect_end()
        body = self.read_body(("endset",))
        self._next += 1
        return Set(tuple(names), None, body, piece.line)

    def _read_definition(self, piece: _Piece) -> Node:
        parser = ExpressionParser(piece.rest) if piece.word != "materialization" else ExpressionParser("x")
        name = parser.read_name()
        parameters: list[tuple[str, Expression | None]] = []
        if parser.accept("("):
            while not parser.accept(")"):
                parameter = parser.read_name()
                parameters.append((parameter, parser.parse() if parser.accept("=") else None))
                if not parser.accept(","):
                    parser.expect(")")
                    break
        parser.expect_end()
        body = self.read_body(("enddata_test", "endtest") if piece.word.endswith("test") else (f"end{piece.word}",))
        self._next += 1
        kind = "test" if piece.word == "data_test" else piece.word
        return Definition(kind, name, tuple(parameters), body, piece.line)


def list_definitions(nodes: tuple[Node, ...]) -> list[Definition]:
    """What a file defines."""
    return [replace(node) for node in nodes if isinstance(node, Definition)]
