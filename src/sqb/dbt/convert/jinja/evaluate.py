"""Renders templates: what a file of dbt's says once loops, conditions and macros are carried out.

Whatever is not known from texts raises `Unconvertible`; nothing is guessed. Functions of the context may return marks,
texts in the place of what is decided later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqb.dbt.convert.jinja import expressions as e
from sqb.dbt.convert.jinja import template as t
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.jinja.values import (
    UNDEFINED,
    Undefined,
    apply_filter,
    apply_test,
    combine,
    find_method,
    format_output,
    is_marked,
)

Scope = dict[str, Any]
_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro of a project or of one of its packages."""

    definition: t.Definition
    file: str
    package: str


class Context(Protocol):
    """What templates may ask for."""

    # The file and line that are carried out.
    place: tuple[str, int]

    def find(self, name: str) -> object:
        """The value of a name; raises Unconvertible for one that only dbt knows, UNDEFINED for none at all."""
        ...

    def find_macro(self, package: str | None, name: str) -> Macro | None:
        """A macro by its name, of one package or of any."""
        ...

    def mark_output(self, expression: e.Expression, render: Callable[[], str]) -> str | None:
        """The mark for an expression that is printed as it is, such as a variable; None for its value."""
        ...


class Package:
    """The name of a package, before the dot of a call of one of its macros."""

    def __init__(self, name: str) -> None:
        self.name = name


class Members:
    """Something with members, such as `adapter`; `call` is what calling it does."""

    def __init__(self, name: str, members: Mapping[str, Any], call: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.members = members
        self.call = call


class _Return(Exception):
    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


@dataclass
class Evaluator:
    """Renders the templates of one file; `file` is where problems are."""

    context: Context
    file: str
    depth: int = 0
    loops: int = 0
    _globals: Scope = field(default_factory=dict)

    def render(self, nodes: Sequence[t.Node], scope: Scope | None = None) -> str:
        """The text of a template."""
        scope = scope if scope is not None else self._globals
        out: list[str] = []
        for node in nodes:
            if isinstance(node, t.Text):
                out.append(node.text)
                continue
            self.context.place = (self.file, node.line)
            try:
                out.append(self._render_node(node, scope))
            except Unconvertible as problem:
                raise problem.locate(self.file, node.line) from None
        return "".join(out)

    def _render_node(self, node: t.Node, scope: Scope) -> str:
        match node:
            case t.Output(expression):
                return self._render_output(expression, scope)
            case t.Set(names, value, body):
                self._set(names, value, body, scope)
            case t.If(branches):
                for condition, body in branches:
                    if condition is None or self._decide(condition, scope):
                        return self.render(body, scope)
            case t.For():
                return self._render_loop(node, scope)
            case t.Unknown(statement):
                raise Unconvertible(f"`{{% {statement} %}}`", "this statement is not known here")
            case t.Text(text):
                return text
            case t.Definition(kind="macro", name=name):
                scope[name] = _Callable(self, Macro(node, self.file, ""))
            case t.Definition():
                pass
        return ""

    def _render_output(self, expression: e.Expression, scope: Scope) -> str:
        if isinstance(expression, e.Call) and not (
            isinstance(expression.function, e.Name) and expression.function.name in scope
        ):
            marked = self.context.mark_output(expression, lambda: format_output(self.evaluate(expression, scope)))
            if marked is not None:
                return marked
        value = self.evaluate(expression, scope)
        if isinstance(value, Undefined):
            raise Unconvertible("`{{ … }}`", "a name in it has no value")
        return "" if value is None and isinstance(expression, e.Call) else format_output(value)

    def _decide(self, condition: e.Expression, scope: Scope) -> bool:
        value = self.evaluate(condition, scope)
        if is_marked(value):
            raise Unconvertible("`{% if … %}`", "what it asks is known only when the model is built")
        return bool(value)

    def _set(self, names: tuple[str, ...], value: e.Expression | None, body: tuple[t.Node, ...], scope: Scope) -> None:
        result = self.render(body, scope) if value is None else self.evaluate(value, scope)
        if len(names) == 1:
            scope[names[0]] = result
        elif names:
            scope.update(_unpack(names, result))

    def _render_loop(self, node: t.For, scope: Scope) -> str:
        values = self.evaluate(node.values, scope)
        if isinstance(values, Undefined) or is_marked(values) or not hasattr(values, "__iter__"):
            raise Unconvertible("`{% for … %}`", "the values that it goes through are not known")
        items = list(values)
        if node.condition is not None:
            items = [v for v in items if self._decide(node.condition, {**scope, **_unpack(node.names, v)})]
        out = []
        for index, value in enumerate(items):
            loop = {
                "index": index + 1,
                "index0": index,
                "first": index == 0,
                "last": index == len(items) - 1,
                "length": len(items),
                "revindex": len(items) - index,
            }
            out.append(self.render(node.body, {**scope, **_unpack(node.names, value), "loop": loop}))
        return "".join(out) if items else self.render(node.otherwise, scope)

    def evaluate(self, node: e.Expression, scope: Scope) -> Any:
        """The value of an expression."""
        match node:
            case e.Constant(value):
                return value
            case e.Name(name):
                return scope[name] if name in scope else self._find(name)
            case e.Attribute(owner, name):
                return self._get_attribute(self.evaluate(owner, scope), name)
            case e.Item():
                return self._get_item(node, scope)
            case e.Call():
                return self._call(node, scope)
            case e.Filter(inner, name, arguments, named):
                value = self.evaluate(inner, scope)
                return apply_filter(name, value, *self._evaluate_arguments(arguments, named, scope))
            case e.Test(inner, name, arguments, is_negated):
                value = self._try_to_find(inner, scope) if name in ("defined", "undefined") else None
                value = self.evaluate(inner, scope) if value is None else value
                return apply_test(name, value, tuple(self.evaluate(a, scope) for a in arguments)) != is_negated
            case e.Binary("and", left, right):
                return self.evaluate(left, scope) and self.evaluate(right, scope)
            case e.Binary("or", left, right):
                return self.evaluate(left, scope) or self.evaluate(right, scope)
            case e.Binary(sign, left, right):
                return combine(sign, self.evaluate(left, scope), self.evaluate(right, scope))
            case e.Unary(sign, inner):
                return (
                    not self._decide(inner, scope) if sign == "not" else combine(sign, 0, self.evaluate(inner, scope))
                )
            case e.Conditional(condition, inner, other):
                chosen = inner if self._decide(condition, scope) else other
                return UNDEFINED if chosen is None else self.evaluate(chosen, scope)
            case e.Sequence(items, is_tuple):
                values = [self.evaluate(item, scope) for item in items]
                return tuple(values) if is_tuple else values
            case e.Mapping(entries):
                return {self.evaluate(key, scope): self.evaluate(value, scope) for key, value in entries}

    def _find(self, name: str) -> object:
        macro = self.context.find_macro(None, name)
        return _Callable(self, macro) if macro is not None else self.context.find(name)

    def _try_to_find(self, node: e.Expression, scope: Scope) -> object:
        """UNDEFINED for a name without a value, which may be asked for; None for all else."""
        if isinstance(node, e.Name) and node.name not in scope and self._find(node.name) is UNDEFINED:
            return UNDEFINED
        return None

    def _get_attribute(self, owner: object, name: str) -> object:
        if isinstance(owner, Package):
            macro = self.context.find_macro(owner.name, name)
            return _Callable(self, macro) if macro is not None else self.context.find(f"{owner.name}.{name}")
        if isinstance(owner, Members):
            if name not in owner.members:
                raise Unconvertible(f"`{owner.name}.{name}`", "only dbt knows it")
            return owner.members[name]
        method = find_method(owner, name)
        if method is not None:
            return method
        if isinstance(owner, dict):
            return owner.get(name, UNDEFINED)
        raise Unconvertible(f"`.{name}`", "what it belongs to is known only when dbt runs")

    def _get_item(self, node: e.Item, scope: Scope) -> object:
        owner = self.evaluate(node.owner, scope)
        if is_marked(owner):
            raise Unconvertible("`[…]`", "what it is taken from is known only when the model is built")
        try:
            if node.key is not None:
                return owner[self.evaluate(node.key, scope)]
            start = None if node.start is None else self.evaluate(node.start, scope)
            stop = None if node.stop is None else self.evaluate(node.stop, scope)
            return owner[start:stop]
        except (KeyError, IndexError):
            return UNDEFINED
        except TypeError as error:
            raise Unconvertible("`[…]`", str(error)) from None

    def _evaluate_arguments(
        self, arguments: Sequence[e.Expression], named: Sequence[tuple[str, e.Expression]], scope: Scope
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(self.evaluate(a, scope) for a in arguments), {n: self.evaluate(a, scope) for n, a in named}

    def _call(self, node: e.Call, scope: Scope) -> object:
        if isinstance(node.function, e.Name) and node.function.name == "return" and len(node.arguments) == 1:
            raise _Return(self.evaluate(node.arguments[0], scope))
        function = self.evaluate(node.function, scope)
        name = _describe(node.function)
        if isinstance(function, Members) and function.call is not None:
            function = function.call
        if not callable(function):
            raise Unconvertible(f"`{name}(…)`", "no file of the project has a macro of this name")
        arguments, named = self._evaluate_arguments(node.arguments, node.named, scope)
        try:
            return function(*arguments, **named)
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise Unconvertible(f"`{name}(…)`", str(error)) from None

    def call_macro(self, macro: Macro, arguments: Sequence[Any], named: Mapping[str, Any]) -> object:
        """What a macro gives: its text, or what it returns."""
        if self.depth >= _MAX_DEPTH:
            raise Unconvertible(f"the macro `{macro.definition.name}`", "it calls itself without end")
        inner = Evaluator(self.context, macro.file, self.depth + 1)
        scope: Scope = {}
        given = dict(zip((name for name, _ in macro.definition.parameters), arguments, strict=False))
        unknown = set(named) - {name for name, _ in macro.definition.parameters}
        if unknown or len(arguments) > len(macro.definition.parameters):
            raise Unconvertible(
                f"the macro `{macro.definition.name}`", "it is called with arguments that it does not name"
            )
        given.update(named)
        for name, default in macro.definition.parameters:
            if name in given:
                scope[name] = given[name]
            else:
                scope[name] = UNDEFINED if default is None else inner.evaluate(default, scope)
        try:
            return inner.render(macro.definition.body, scope)
        except _Return as result:
            return result.value


class _Callable:
    """A macro that can be called."""

    def __init__(self, evaluator: Evaluator, macro: Macro) -> None:
        self._evaluator = evaluator
        self.macro = macro

    def __call__(self, *arguments: Any, **named: Any) -> object:
        return self._evaluator.call_macro(self.macro, arguments, named)


def _describe(node: e.Expression) -> str:
    match node:
        case e.Name(name):
            return name
        case e.Attribute(owner, name):
            return f"{_describe(owner)}.{name}"
        case e.Call(function):
            return f"{_describe(function)}(…)"
        case _:
            return "…"


def _unpack(names: tuple[str, ...], value: Any) -> Scope:
    if len(names) == 1:
        return {names[0]: value}
    values = list(value)
    if len(values) != len(names):
        raise Unconvertible("a loop over several names", "the values do not have as many parts")
    return dict(zip(names, values, strict=True))
