"""A check as a value: where it was written, what it needs, and the question that it asks of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.values import Call

if TYPE_CHECKING:
    from decimal import Decimal

    from sqb.types.model import Type

Role = Literal["constraint", "audit", "warning"]
Severity = Literal["error", "warn"]


@dataclass(frozen=True, slots=True)
class RelationSlot:
    """A slot in a query for a relation: the new rows, the whole relation, or another one by its written name."""

    which: Literal["new", "whole", "relation"]
    name: str = ""


NEW, WHOLE = RelationSlot("new"), RelationSlot("whole")
FromSlot = Callable[[RelationSlot], str]


@dataclass(frozen=True, slots=True)
class Template:
    """SQL with slots for relations; what fills a slot is valid in a FROM clause."""

    parts: tuple[str | RelationSlot, ...]

    def render(self, relation_of: FromSlot) -> str:
        """Return the SQL with every slot filled."""
        return "".join(part if isinstance(part, str) else relation_of(part) for part in self.parts)


def build_template(*parts: str | RelationSlot) -> Template:
    """Build a template from texts and slots."""
    return Template(parts)


ALL_ROWS = build_template(WHOLE)


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measured figures of this run, those recorded by the previous run, and the time (seconds since 1970)."""

    figures: Mapping[str, Any]
    previous: Mapping[str, Any]
    now: float

    def get_number(self, name: str) -> Decimal | None:
        """A figure as a number; None when it is NULL."""
        return _to_decimal(self.figures.get(name))

    def get_previous(self, name: str) -> Decimal | None:
        """The same figure in the run before; None when there was none."""
        return _to_decimal(self.previous.get(name))


def _to_decimal(value: Any) -> Decimal | None:
    """A figure as a number; the last digits of a double depend on the order of the rows, and are rounded away."""
    from decimal import Decimal  # a plan has checks and judges none

    if value is None:
        return None
    return Decimal(f"{value:.12g}" if isinstance(value, float) else str(value))


Judge = Callable[[Measurements], str | None]


@dataclass(frozen=True, slots=True)
class Figure:
    """An aggregate over a relation. The name says what it is, so that equal figures are computed once."""

    name: str
    sql: str
    of: Template = ALL_ROWS


@dataclass(frozen=True, slots=True)
class RowTest:
    """Holds or fails row by row; `violation` is TRUE for a violating row and never NULL."""

    violation: str

    @property
    def count(self) -> str:
        """The aggregate that counts violating rows; `count_if` is one of the functions that Spark plans for ever."""
        return f"count(*) FILTER (WHERE {self.violation})"


@dataclass(frozen=True, slots=True)
class Figures:
    """Holds or fails by figures of the relation; `keep` names those that the next run compares with."""

    figures: tuple[Figure, ...]
    judge: Judge = field(compare=False)
    sample: Template | None = None
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Violations:
    """A query whose rows are the violations."""

    query: Template
    # The same for a relation that held before this change: it looks at what the new rows can have broken.
    narrow: Template | None = None
    # The column that says how many rows of the relation stand behind a row of the query.
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """Holds or fails by the relation's columns alone: names (lower case) and types."""

    judge: Callable[[Mapping[str, Type]], str | None] = field(compare=False)


@dataclass(frozen=True, slots=True)
class GoldenTest:
    """The relation, in the columns of a CSV file, has exactly that file's rows."""

    file: str
    columns: tuple[str, ...]


Test = RowTest | Figures | Violations | ColumnTest | GoldenTest


@dataclass(frozen=True, slots=True)
class RequiredColumn:
    """A column that a check works on, and the class of types that it takes (see `types`)."""

    column: str
    takes: str = "any"
    # A text that its values are compared with; it must be a date or a time where they are.
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """Two columns whose values are compared: one of the model, and one of the model or of another relation."""

    column: str
    other: str
    relation: str = ""


@dataclass(frozen=True, slots=True)
class RelationRead:
    """Another relation that a check reads, by its name as written, and the columns it uses of it."""

    name: str
    at: At
    columns: tuple[str, ...] = ()
    # What the name must be, when it was written as `__ref("x")` or `__source("x")`.
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one model."""

    role: Role
    # The name in the catalogue, whatever synonym was written; the file's name for a custom audit.
    name: str
    text: str
    at: At
    test: Test
    severity: Severity = "error"
    needs: tuple[RequiredColumn, ...] = ()
    reads: tuple[RelationRead, ...] = ()
    comparisons: tuple[ComparedColumns, ...] = ()
    # Java's regular expressions and SQL's conditions in it, of which only Spark can tell whether they are right.
    patterns: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    description: str = ""
    # What was written, and what had to be looked up to read it: enough to read it again without files or a parser.
    call: Call = Call("", (), At(""))
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The model's columns that it needs."""
        return tuple(dict.fromkeys(need.column for need in self.needs))

    @property
    def is_blocking(self) -> bool:
        """Whether its failure keeps the rows from being published."""
        return self.role != "warning" and self.severity == "error"

    @property
    def is_limited_to_new_rows(self) -> bool:
        """Whether it asks about the new rows alone: what holds row by row held for the others before."""
        return self.role == "constraint" and isinstance(self.test, RowTest)


def iter_templates(test: Test) -> Iterator[Template]:
    """The templates in a test."""
    match test:
        case Figures(figures=figures, sample=sample):
            yield from (figure.of for figure in figures)
            if sample is not None:
                yield sample
        case Violations(query=query, narrow=narrow):
            yield query
            if narrow is not None:
                yield narrow
