"""What makes a function part of a project: decorators that record their arguments and change nothing else.

Nothing is refused here. What is wrong with an argument is reported by discovery, with its place and with what else is
wrong in any file; an exception here would be the only thing that its file says. Nothing of sqb is imported either:
`import sqb` costs the code of people nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack, overload

F = TypeVar("F", bound=Callable[..., Any])
# A node is named by its name, or by the decorated function itself.
Name = str | Callable[..., Any]


class Decoration(NamedTuple):
    """What a decorator was given, and where: it is the `__sqb__` of the function."""

    kind: str
    options: Mapping[str, Any]
    # Arguments without a name.
    unnamed: tuple[Any, ...] = ()
    # The module whose import carried the decorator out, the line of it, and where the decorator itself is written.
    module: str = ""
    module_line: int = 0
    file: str = ""
    line: int = 0

    @property
    def name(self) -> str | None:
        """The name that was asked for."""
        name = self.options.get("name")
        return name if isinstance(name, str) else None


# Every decorated function in the order of decoration: a loop may decorate many that one name cannot hold.
decorated: list[tuple[Decoration, Callable[..., Any]]] = []


class Common(TypedDict, total=False):
    """What every node takes."""

    name: str
    tags: str | Sequence[str]
    description: str
    timeout: str
    retries: int
    retry_delay: str
    enabled: bool


class Dependent(Common, total=False):
    """What every node takes that has its place in the graph."""

    depends_on: Name | Sequence[Name]


class Loading(Dependent, total=False):
    """What a loader takes besides its source."""

    mode: Literal["replace", "append", "upsert"]
    key: str | Sequence[str]
    columns: Mapping[str, str]


class Checking(Dependent, total=False):
    """What a check takes."""

    severity: Literal["error", "warn"]


@overload
def loader(source: str, /, **options: Unpack[Loading]) -> Callable[[F], F]: ...
@overload
def loader(*, source: str, **options: Unpack[Loading]) -> Callable[[F], F]: ...
def loader(*unnamed: Any, **options: Any) -> Any:
    """Fill a source: the function returns or writes its rows."""
    if len(unnamed) == 1 and isinstance(unnamed[0], str) and "source" not in options:
        return _decorate("loader", (), {"source": unnamed[0], **options})
    return _decorate("loader", unnamed, options)


@overload
def task(function: F, /) -> F: ...
@overload
def task(**options: Unpack[Dependent]) -> Callable[[F], F]: ...
def task(*unnamed: Any, **options: Any) -> Any:
    """Do something after what it depends on."""
    return _decorate("task", unnamed, options)


@overload
def asset(function: F, /) -> F: ...
@overload
def asset(**options: Unpack[Dependent]) -> Callable[[F], F]: ...
def asset(*unnamed: Any, **options: Any) -> Any:
    """Make something outside of the lake from what it depends on."""
    return _decorate("asset", unnamed, options)


@overload
def check(function: F, /) -> F: ...
@overload
def check(**options: Unpack[Checking]) -> Callable[[F], F]: ...
def check(*unnamed: Any, **options: Any) -> Any:
    """Judge what it depends on; what fails blocks what depends on it."""
    return _decorate("check", unnamed, options)


@overload
def on_run_start(function: F, /) -> F: ...
@overload
def on_run_start(**options: Unpack[Common]) -> Callable[[F], F]: ...
def on_run_start(*unnamed: Any, **options: Any) -> Any:
    """Call the function before the first node of a build."""
    return _decorate("on_run_start", unnamed, options)


@overload
def on_run_end(function: F, /) -> F: ...
@overload
def on_run_end(**options: Unpack[Common]) -> Callable[[F], F]: ...
def on_run_end(*unnamed: Any, **options: Any) -> Any:
    """Call the function after the last node of a build, however it ended."""
    return _decorate("on_run_end", unnamed, options)


@overload
def on_failure(function: F, /) -> F: ...
@overload
def on_failure(**options: Unpack[Common]) -> Callable[[F], F]: ...
def on_failure(*unnamed: Any, **options: Any) -> Any:
    """Call the function after a build in which something failed."""
    return _decorate("on_failure", unnamed, options)


@overload
def model(function: F, /) -> F: ...
@overload
def model(**options: Any) -> Callable[[F], F]: ...
def model(*unnamed: Any, **options: Any) -> Any:
    """A model whose rows are the Spark DataFrame that the function returns; it takes every key of a model's header."""
    return _decorate("model", unnamed, options)


def udf(returns: Any = None, *, deterministic: bool = True) -> Any:
    """Say what a Python function of `functions/` returns, as a type of Spark's, and whether by chance."""
    if callable(returns):
        return returns

    def unchanged(function: F) -> F:
        return function

    return unchanged


def table_function(
    *unnamed: Any, schema: Any = None, version: Any = None, name: str | None = None, **more: Any
) -> Callable[[F], F]:
    """Make a function of `functions/` one that is read in FROM: `schema` declares the columns of its rows."""
    return _build_decorator("table_function", unnamed, {"schema": schema, "version": version, "name": name, **more})


def materialization(*unnamed: Any, **more: Any) -> Callable[[F], F]:
    """Make a function of `materializations/` the way in which models of `kind custom` are built."""
    if len(unnamed) == 1 and isinstance(unnamed[0], str) and "name" not in more:
        return _build_decorator("materialization", (), {"name": unnamed[0], **more})
    return _build_decorator("materialization", unnamed, more)


def get_decoration(function: Any) -> Decoration | None:
    """What the decorator of a function was given; None for one that has none."""
    decoration = getattr(function, "__sqb__", None)
    return decoration if isinstance(decoration, Decoration) else None


def _decorate(kind: str, unnamed: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """`@task` is handed the function, `@task(…)` what comes before it."""
    if len(unnamed) == 1 and not options and callable(unnamed[0]):
        return _attach(Decoration(kind, {}), unnamed[0], sys._getframe(2))
    return _build_decorator(kind, unnamed, options)


def _build_decorator(kind: str, unnamed: tuple[Any, ...], options: dict[str, Any]) -> Callable[[F], F]:
    decoration = Decoration(kind, options, unnamed)

    def attach(function: F) -> F:
        return _attach(decoration, function, sys._getframe(1))

    return attach


def _attach(decoration: Decoration, function: F, frame: FrameType) -> F:
    above: FrameType | None = frame
    while above is not None and above.f_code.co_name != "<module>":
        above = above.f_back
    importing = above or frame
    decoration = decoration._replace(
        module=importing.f_globals.get("__name__", ""),
        module_line=importing.f_lineno,
        file=frame.f_code.co_filename,
        line=frame.f_lineno,
    )
    decorated.append((decoration, function))
    # What takes no attributes is not a function, which discovery says.
    with suppress(AttributeError, TypeError):
        function.__sqb__ = decoration  # type: ignore[attr-defined]
    return function


def lint_rule(function: Any = None, *, severity: str = "warning") -> Any:
    """A function in `lint/*.py` as a rule of `sqb lint`: it takes a model, and gives what it has to say of it."""

    def mark(one: Any) -> Any:
        one.__sqb_lint__ = severity
        return one

    return mark(function) if function is not None else mark
