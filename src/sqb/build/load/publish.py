"""A loader's write: what it is given, and from staged rows to a source's table that readers see, or to nothing.

The table stays a source's: nothing here makes it a model's, and how it is laid out is left as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from sqb import __version__
from sqb.build.failpoints import Announce, ignore_step
from sqb.build.load.columns import LoadedColumn
from sqb.build.node.context import NodeOutcome
from sqb.errors.base import SqbError
from sqb.errors.build import BuildError, KeyMissing, RowsUnfit
from sqb.errors.lake import UnsupportedType
from sqb.lake.port import Lake, Shape, Stage, TableState
from sqb.names import At, Relation, suggest_nearest
from sqb.plan.recorded.commit_identity import IDENTITY_VERSION, LOADER, MODEL, CommitIdentity
from sqb.project.config.settings import CostGate
from sqb.types.model import has_empty_struct

# Results of more characters are in the state tables: every snapshot of a table repeats its properties.
_MAX_RESULT_CHARS = 64_000


@dataclass(frozen=True, slots=True)
class Load:
    """Where a loader's rows go and how."""

    node: str
    relation: Relation
    mode: Literal["replace", "append", "upsert"]
    key: tuple[str, ...]
    # Types that are declared, as Spark writes them, by the columns' names.
    columns: Mapping[str, str]
    # The state of the table when the build observed the lake.
    current: TableState | None
    run_id: str
    git: str
    local_hash: str
    lake: Lake
    at: At
    announce: Announce = ignore_step
    # The name of the catalog in SQL.
    catalog: str = "lake"
    started: float = field(default_factory=time.monotonic)
    # What the loader's run returned, as JSON: it is committed with the rows, so that no kill comes between the two.
    result: str = ""
    # Writes down a result that is too long for a commit: it counts once a commit of the same run is there.
    stage_result: Callable[[], None] = lambda: None
    # A table of up to so many rows is written anew where some of its rows changed.
    small_rows: int = CostGate().small_rows

    @property
    def run_type(self) -> str:
        if self.current is None:
            return "backfill"
        return "full" if self.mode == "replace" else "incremental"

    @property
    def is_result_committed(self) -> bool:
        """Whether what the run returned is in the commit of its rows."""
        return len(self.result) <= _MAX_RESULT_CHARS

    def build_identity(self, content: object) -> CommitIdentity:
        """What is committed with the rows: who wrote them, and their content where it is known."""
        return CommitIdentity(
            loader=self.node,
            local_hash=self.local_hash,
            run_id=self.run_id,
            run_type=self.run_type,
            seconds=f"{time.monotonic() - self.started:.3f}",
            version=__version__,
            identity_version=str(IDENTITY_VERSION),
            loader_result=(self.result or "null") if self.is_result_committed else "",
            content=str(content) if content is not None else "",
            git=self.git,
        )


@contextmanager
def locate_errors(load: Load) -> Iterator[None]:
    """Give mistakes in a loader's rows the place of the loader."""
    try:
        yield
    except SqbError as error:
        if error.at is None and isinstance(error, BuildError | UnsupportedType):
            error.at = load.at
        raise


def check_target(load: Load) -> None:
    """Refuse to overwrite a relation that is not a source's table."""
    current = load.current
    if current is None:
        return
    model = current.properties.get(MODEL) or current.identity.model
    if model:
        raise RowsUnfit(
            f"{load.relation} is what the model {model} builds: a loader does not write to it",
            hint="give the source of the loader another table, or drop this one if the model is gone",
        )
    if current.is_view:
        raise RowsUnfit(
            f"{load.relation} is a view: a loader can only write to a table",
            hint="give the source of the loader another table, or drop the view",
        )


def list_key_columns(load: Load, columns: Sequence[str]) -> list[str]:
    """The columns of the key, as the table spells them; refused when the rows do not have one."""
    if not load.key:
        raise KeyMissing('mode="upsert" needs a key', hint='name the columns that identify a row: key="id"')
    spellings = {name.lower(): name for name in columns}
    for name in load.key:
        if name.lower() not in spellings:
            hint = suggest_nearest(name, columns) or f"their columns are {', '.join(columns)}"
            raise KeyMissing(f'key names "{name}", and the rows have no such column', hint=hint)
    return [spellings[name.lower()] for name in load.key]


@contextmanager
def open_stage(load: Load, columns: Sequence[LoadedColumn], keeps_rows: bool) -> Iterator[tuple[Stage, Shape]]:
    """A stage for a loader's rows; whatever fails before the publish leaves nothing behind."""
    _check_structs(columns)
    shape = Shape(
        tuple(c.column for c in columns if c.is_of_spark),
        properties={LOADER: load.node},
        keeps_rows=keeps_rows,
        keeps_layout=True,
    )
    load.announce("before stage", load.node)
    if load.current is None:
        load.lake.ensure_schemas([load.relation.schema])
    base = load.current.base if load.current is not None else None
    stage = load.lake.stage(load.relation, shape, base, load.run_id)
    try:
        load.announce("staged", load.node)
        yield stage, shape
    except BaseException:
        load.lake.discard(stage)
        raise


def _check_structs(columns: Sequence[LoadedColumn]) -> None:
    empty = next((c.name for c in columns if has_empty_struct(c.type)), None)
    if empty is not None:
        raise RowsUnfit(
            f'column "{empty}" holds structures without any field, which no table can hold',
            hint=f'leave the column out, or make it a text: columns={{"{empty}": "string"}} and json.dumps',
        )


def publish_stage(load: Load, stage: Stage, rows: int, content: object, gone: Collection[str] | None) -> NodeOutcome:
    """Make staged rows visible in one commit."""
    if not load.is_result_committed:
        load.stage_result()
    load.announce("before publish", load.node)
    published = load.lake.publish(stage, load.build_identity(content).to_properties(), gone)
    load.announce("published", load.node)
    return NodeOutcome(rows, published.snapshot_id, published.state, run_type=load.run_type)


def build_unchanged_outcome(load: Load) -> NodeOutcome:
    """The message when the table already is what it is to be: nothing is committed."""
    snapshot_id = load.current.snapshot_id if load.current is not None else None
    return NodeOutcome(0, snapshot_id, load.current, identical=True)


def build_empty_outcome(load: Load) -> NodeOutcome:
    """The message when there are neither rows nor columns nor a table."""
    notice = f"it returned no rows, and {load.relation} has no columns yet: no table was made; columns= declares them"
    return NodeOutcome(0, None, None, identical=True, notices=(notice,))
