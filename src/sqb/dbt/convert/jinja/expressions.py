"""Jinja's expressions: `ref('x')`, `a ~ b`, `names | join(', ')`, `x is none`, parsed into a small tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqb.dbt.convert.jinja.problems import Unconvertible

_TOKEN = re.compile(
    r"""\s+|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<name>\w+)"""
    r"""|(?P<sign>==|!=|<=|>=|//|\*\*|[-+*/%~|.,:(){}\[\]<>=])""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS = {"true": True, "false": False, "none": None, "True": True, "False": False, "None": None}
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, a number, true, false or none."""

    value: object


@dataclass(frozen=True, slots=True)
class Name:
    """A name that the context knows."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """`owner.name`."""

    owner: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """`owner[key]`; a slice has its ends instead of a key."""

    owner: Expression
    key: Expression | None
    start: Expression | None = None
    stop: Expression | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`."""

    function: Expression
    arguments: tuple[Expression, ...]
    named: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """`value | name(arguments)`."""

    value: Expression
    name: str
    arguments: tuple[Expression, ...]
    named: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Test:
    """`value is name`, or `is not`."""

    value: Expression
    name: str
    arguments: tuple[Expression, ...]
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Binary:
    """Two values and what is between them: arithmetic, a comparison, `in`, `and`, `or`, `~`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Unary:
    """`not value`, `-value` or `+value`."""

    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Conditional:
    """`value if condition else other`; without an `else`, nothing."""

    condition: Expression
    value: Expression
    other: Expression | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list or a tuple."""

    items: tuple[Expression, ...]
    is_tuple: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """A dictionary."""

    items: tuple[tuple[Expression, Expression], ...]


Expression = (
    Constant | Name | Attribute | Item | Call | Filter | Test | Binary | Unary | Conditional | Sequence | Mapping
)


def parse_expression(text: str) -> Expression:
    """The tree of an expression; raises Unconvertible where it is not one."""
    parser = ExpressionParser(text)
    tree = parser.parse_tuple()
    parser.expect_end()
    return tree


class ExpressionParser:
    """Reads expressions from a text, one token after another."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._complain()
            position = match.end()
            if match.lastgroup:
                self._tokens.append((match.lastgroup, match.group()))
        self._next = 0

    def _complain(self) -> Unconvertible:
        return Unconvertible(
            f"`{' '.join(self._text.split())}`", "it is not an expression of Jinja's that is known here"
        )

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        index = self._next + ahead
        return self._tokens[index] if index < len(self._tokens) else ("end", "")

    def accept(self, *words: str) -> str | None:
        """The next token if it is one of these words or signs, and then the one after it is next."""
        kind, text = self._peek()
        if kind != "string" and text in words:
            self._next += 1
            return text
        return None

    def expect(self, word: str) -> None:
        """Pass a word or sign, which must be next."""
        if self.accept(word) is None:
            raise self._complain()

    def expect_end(self) -> None:
        """Nothing may be left."""
        if self._peek()[0] != "end":
            raise self._complain()

    def read_name(self) -> str:
        """The next token, which must be a name."""
        kind, text = self._peek()
        if kind != "name":
            raise self._complain()
        self._next += 1
        return text

    def parse_tuple(self) -> Expression:
        """One expression, or several with commas between them, which are a tuple."""
        items = [self.parse()]
        is_tuple = False
        while self.accept(","):
            is_tuple = True
            if self._peek()[0] == "end" or self._peek()[1] in (")", "]"):
                break
            items.append(self.parse())
        return Sequence(tuple(items), is_tuple=True) if is_tuple else items[0]

    def parse(self) -> Expression:
        """One expression."""
        value = self.parse_or()
        while self.accept("if"):
            condition = self.parse_or()
            other = self.parse() if self.accept("else") else None
            value = Conditional(condition, value, other)
        return value

    def parse_or(self) -> Expression:
        """One expression without an `if`, as after the `in` of a loop."""
        return self._parse_left(self._parse_and, "or")

    def _parse_left(self, below: Callable[[], Expression], *operators: str) -> Expression:
        value = below()
        while (operator := self.accept(*operators)) is not None:
            value = Binary(operator, value, below())
        return value

    def _parse_and(self) -> Expression:
        return self._parse_left(self._parse_not, "and")

    def _parse_not(self) -> Expression:
        if self._peek()[1] == "not" and self._peek()[0] == "name":
            self._next += 1
            return Unary("not", self._parse_not())
        return self._parse_comparison()

    def _parse_comparison(self) -> Expression:
        value = self._parse_sum()
        comparisons: list[Expression] = []
        while True:
            if (operator := self.accept(*_COMPARISONS, "in")) is not None:
                right = self._parse_sum()
                comparisons.append(Binary(operator, value, right))
                value = right
            elif self._peek()[1] == "not" and self._peek(1)[1] == "in":
                self._next += 2
                right = self._parse_sum()
                comparisons.append(Unary("not", Binary("in", value, right)))
                value = right
            else:
                break
        tree = comparisons[0] if comparisons else value
        for comparison in comparisons[1:]:
            tree = Binary("and", tree, comparison)
        return tree

    def _parse_sum(self) -> Expression:
        return self._parse_left(self._parse_concatenation, "+", "-")

    def _parse_concatenation(self) -> Expression:
        return self._parse_left(self._parse_product, "~")

    def _parse_product(self) -> Expression:
        return self._parse_left(self._parse_unary, "*", "/", "//", "%")

    def _parse_unary(self) -> Expression:
        if (sign := self.accept("-", "+")) is not None:
            return Unary(sign, self._parse_unary())
        value = self._parse_postfix(self._parse_primary())
        while True:
            if self.accept("|"):
                arguments: tuple[Expression, ...] = ()
                named: tuple[tuple[str, Expression], ...] = ()
                name = self.read_name()
                if self.accept("("):
                    arguments, named = self._parse_arguments()
                value = self._parse_postfix(Filter(value, name, arguments, named))
            elif self.accept("is"):
                value = self._parse_test(value)
            else:
                return value

    def _parse_test(self, value: Expression) -> Expression:
        is_negated = self.accept("not") is not None
        name = self.read_name()
        arguments: tuple[Expression, ...] = ()
        if self.accept("("):
            arguments, _ = self._parse_arguments()
        elif self._peek()[0] in ("string", "number"):
            arguments = (self._parse_primary(),)
        return Test(value, name, arguments, is_negated)

    def _parse_postfix(self, value: Expression) -> Expression:
        while True:
            if self.accept("."):
                value = Attribute(value, self.read_name())
            elif self.accept("("):
                value = Call(value, *self._parse_arguments())
            elif self.accept("["):
                value = self._parse_item(value)
            else:
                return value

    def _parse_item(self, owner: Expression) -> Expression:
        start = None if self._peek()[1] == ":" else self.parse()
        if not self.accept(":"):
            self.expect("]")
            return Item(owner, start)
        stop = None if self._peek()[1] == "]" else self.parse()
        self.expect("]")
        return Item(owner, None, start, stop)

    def _parse_arguments(self) -> tuple[tuple[Expression, ...], tuple[tuple[str, Expression], ...]]:
        arguments: list[Expression] = []
        named: list[tuple[str, Expression]] = []
        while not self.accept(")"):
            if self._peek()[0] == "name" and self._peek(1)[1] == "=":
                name = self.read_name()
                self.expect("=")
                named.append((name, self.parse()))
            else:
                arguments.append(self.parse())
            if not self.accept(","):
                self.expect(")")
                break
        return tuple(arguments), tuple(named)

    def _parse_primary(self) -> Expression:
        kind, text = self._peek()
        self._next += 1
        match kind:
            case "string":
                value = _unescape(text)
                while self._peek()[0] == "string":
                    value += _unescape(self._peek()[1])
                    self._next += 1
                return Constant(value)
            case "number":
                return Constant(int(text) if text.isdigit() else float(text))
            case "name":
                return Constant(_CONSTANTS[text]) if text in _CONSTANTS else Name(text)
        match text:
            case "(":
                if self.accept(")"):
                    return Sequence((), is_tuple=True)
                value_in_brackets = self.parse_tuple()
                self.expect(")")
                return value_in_brackets
            case "[":
                return Sequence(tuple(self._parse_items("]")))
            case "{":
                return self._parse_mapping()
        raise self._complain()

    def _parse_items(self, closing: str) -> list[Expression]:
        items: list[Expression] = []
        while not self.accept(closing):
            items.append(self.parse())
            if not self.accept(","):
                self.expect(closing)
                break
        return items

    def _parse_mapping(self) -> Expression:
        items: list[tuple[Expression, Expression]] = []
        while not self.accept("}"):
            key = self.parse()
            self.expect(":")
            items.append((key, self.parse()))
            if not self.accept(","):
                self.expect("}")
                break
        return Mapping(tuple(items))


def _unescape(literal: str) -> str:
    return _ESCAPE.sub(
        lambda match: _ESCAPES.get(match[1], match[1] if match[1] in "'\"\\" else match[0]), literal[1:-1]
    )
