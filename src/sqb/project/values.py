"""What people wrote, as frozen values. Reading files is the business of the modules beside this one.

Everything here is plain data: no SQL parser, no catalog, no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from sqb.light_dataclass import dataclass
from sqb.names import At, Relation
from sqb.project.config.connections.model import Connection
from sqb.project.config.settings import CostGate, EngineMode, OpenLineageSettings, Retention
from sqb.project.config.virtual import VirtualSettings

if TYPE_CHECKING:
    from sqb.project.config.dbt import DbtSettings
    from sqb.types.model import Type

# A value in a header or a configuration file: text, number, boolean, list, mapping or a call such as not_null(id).
Value = Any


@dataclass(frozen=True, slots=True)
class Call:
    """A written call, `between(v, 0, 9)`: the name and each argument's text as written, trimmed."""

    name: str
    arguments: tuple[str, ...]
    at: At

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})"


@dataclass(frozen=True, slots=True)
class Statement:
    """A SQL statement as written, and where it begins."""

    text: str
    at: At

    def __str__(self) -> str:
        return self.text

    def locate(self, offset: int, length: int = 1) -> At:
        """Where an offset of the statement is in its file."""
        above = self.text[:offset]
        if "\n" not in above:
            return At(self.at.file, self.at.line, self.at.column + offset, max(1, length))
        return At(self.at.file, self.at.line + above.count("\n"), len(above) - above.rfind("\n"), max(1, length))


@dataclass(frozen=True, slots=True)
class ContractColumn:
    """A column that a model promises, its type in one spelling, and whether it may be NULL."""

    name: str
    type: str
    not_null: bool = False

    def __str__(self) -> str:
        return f"{self.type} not null" if self.not_null else self.type


@dataclass(frozen=True, slots=True)
class Setting:
    """One configured value and where it was written."""

    value: Value
    at: At


@dataclass(frozen=True, slots=True)
class Target:
    """Where a build puts its relations."""

    name: str
    schema: str = "{folder}"
    connection: str | None = None
    at: At = At("sqlbuild_project.toml")
    # The target whose relations are taken over where they are what would be built here, and whether by copying them.
    reuse_from: str | None = None
    reuse_hard_copy: bool = False
    # The target whose relations are read for models that are neither selected nor built here.
    defer_sources_to: str | None = None
    # Whether its builds run loaders, which fill tables that all targets read.
    loads: bool = True

    @property
    def other_target(self) -> str | None:
        """The other target that this one looks at."""
        return self.reuse_from or self.defer_sources_to


@dataclass(frozen=True, slots=True)
class PathDefaults:
    """Settings for the models whose path (relative to the project) fits a glob."""

    glob: str
    settings: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class PackageSetting:
    """A Python package that a project uses, by its import name, with the versions that it may have."""

    name: str
    requirement: str
    at: At


@dataclass(frozen=True, slots=True)
class Config:
    """`sqlbuild_project.toml`, with `sqlbuild_local.toml` laid over it."""

    name: str
    default_target: str
    targets: Mapping[str, Target]
    connections: Mapping[str, Connection]
    defaults: Mapping[str, Setting] = field(default_factory=dict)
    path_defaults: tuple[PathDefaults, ...] = ()
    vars: Mapping[str, Value] = field(default_factory=dict)
    concurrency: int | None = None
    engine: EngineMode = "auto"
    gate: CostGate = CostGate()
    retention: Retention = Retention()
    virtual: VirtualSettings = VirtualSettings()
    # None where there is no dbt project.
    dbt: DbtSettings | None = None
    openlineage: OpenLineageSettings = OpenLineageSettings()
    packages: tuple[PackageSetting, ...] = ()

    def get_connection(self, target: Target) -> Connection:
        """The connection that a target uses: its own, else the only or first one."""
        return self.connections[target.connection or next(iter(self.connections))]


@dataclass(frozen=True, slots=True)
class Header:
    """A model file's header: its settings, and where the query begins in the file's text."""

    settings: Mapping[str, Setting]
    body_start: int


@dataclass(frozen=True, slots=True)
class AgePolicy:
    """How old a source may be before it is warned about, and before it blocks what reads it."""

    warn_after: str | None = None
    error_after: str | None = None


@dataclass(frozen=True, slots=True)
class Freshness:
    """How to tell whether a source has new data."""

    strategy: str = "adapter"
    column: str | None = None
    sql: str | None = None
    type: str | None = None
    filter: str | None = None
    lag_tolerance: str | None = None
    age_policy: AgePolicy = AgePolicy()
    # Where the question is written.
    at: At = field(default=At(""), compare=False)


@dataclass(frozen=True, slots=True)
class Source:
    """A declared source: a table of the catalog, files, an expression, or one that a loader fills."""

    name: str
    relation: Relation | None
    at: At
    description: str = ""
    path: str | None = None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    expression: str | None = None
    managed: bool = False
    freshness: Freshness | None = None
    expression_at: At | None = field(default=None, compare=False)
    owner: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class SeedColumn:
    """A column of a seed: its name, and the type that it is declared with or that its values have."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Golden:
    """A CSV file of rows that a relation must have: its columns, and each row's texts, None for NULL."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class Seed:
    """A CSV file of the project, checked: rectangular, UTF-8, every value fits its column's type."""

    name: str
    file: str
    columns: tuple[SeedColumn, ...]
    delimiter: str = ","
    null_values: tuple[str, ...] = ("",)
    rows: int = 0
    content_hash: str = ""
    settings: Mapping[str, Setting] = field(default_factory=dict)
