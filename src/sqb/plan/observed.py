"""What planning knows of the lake, as values. `build.observe` reads it; nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from sqb.compile.model import Node, Project
from sqb.compile.source_model import SourceQuery
from sqb.identity import digest
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.changes.columns import (
    EVERYTHING,
    Field,
    Read,
    compute_view_identity,
    has_storage_reads,
    is_fresh_as_read,
    is_same_as_read,
    list_column_differences,
    parse_unchanged_columns,
    resolve_column_reads,
)
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.versions import RecordedVersion, encode_sources, parse_sources
from sqb.sql.text.time_travel import TimeTravel, parse_time_travel

if TYPE_CHECKING:
    from sqb.plan.freshness import SourceFreshness
    from sqb.plan.python_nodes import LastPythonRun
    from sqb.plan.refresh.choose import QueryObservation
    from sqb.sql.delta.operators.model import Origin

# On a relation: the run whose post-hooks have run.
HOOKS_DONE = "sqb.post_hooks_done"

# The name of a file, its size and when it was modified, in nanoseconds.
FileStamp = tuple[str, int, int]
# A commit says which files were read; of more than these only how many they were.
_FILES_LISTED = 100
# How many combinations of earlier contents are tried for checks.
_TOKENS = 64


@dataclass(frozen=True, slots=True)
class FreshnessValue:
    """The value that tells how fresh a source is, and whether it counts as unchanged since it was last recorded."""

    token: str
    value: str
    kind: str
    lag: float | None = None
    unchanged: bool = False
    # The value that is recorded while this one counts as the same.
    baseline: str | None = None

    @property
    def text(self) -> str:
        """What is recorded beside rows that were made from it; other questions give other texts."""
        return f"{self.token}:{self.value}"

    def is_covering(self, recorded: RecordedVersion) -> bool:
        """Whether a reader of the source as it was then need not read it again.

        The recorded value must be near enough by itself: a reader may have missed what others have seen since.
        """
        then = self.get_recorded(recorded)
        return self.unchanged and then is not None and not has_changed_value(self.kind, then, self.value, self.lag)

    def get_recorded(self, recorded: RecordedVersion) -> str | None:
        """The value that was recorded for the same question; None when there is none."""
        start = f"{self.token}:"
        matches = (part for part in recorded.values if isinstance(part, str) and part.startswith(start))
        return next((part.removeprefix(start) for part in matches), None)


def has_changed_value(kind: str, old: str, new: str, lag: float | None) -> bool:
    """Whether a value of freshness is another one: later by more than the tolerance, or earlier at all."""
    if old == new:
        return False
    if kind != "timestamp" or lag is None:
        return True
    try:
        drift = (datetime.fromisoformat(new) - datetime.fromisoformat(old)).total_seconds()
    except (ValueError, TypeError):
        return True
    return not 0 <= drift <= lag


def encode_listing(files: tuple[FileStamp, ...]) -> Any:
    """The files that were read, as they are recorded."""
    if len(files) <= _FILES_LISTED:
        return [list(f) for f in files]
    return {"files": len(files), "bytes": sum(size for _, size, _ in files)}


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an input. Equal rows and columns are one version, whatever commit they came in.

    A view is versioned by its definition, and for other views by its columns; the tables beneath it are inputs of
    their own.
    """

    snapshot_id: int | None = None
    same_rows: tuple[int, ...] = ()
    content: str | None = None
    columns: str = ""
    definition: str | None = None
    # Its columns now and at other times, to tell what of them changed.
    schema_id: int | None = None
    shape: Sequence[Field] = ()
    former: Mapping[str, Sequence[Field]] = field(default_factory=dict)
    # Contents of before that its rows still have, in some of their columns: see `kept_contents`.
    unchanged_columns: str = ""
    # Of a view: what it is in the columns that are read of it.
    as_read: str = ""
    # For files: the name, size and time of each.
    files: tuple[FileStamp, ...] | None = None
    # For a source whose freshness is a value: today's, and whether it counts as new.
    fresh: FreshnessValue | None = None
    # Of a version of which only the record is known, to be recorded again.
    recorded: RecordedVersion | None = None

    def record(self) -> RecordedVersion:
        """What is written beside the rows that were made from this version."""
        if self.recorded is not None:
            return self.recorded
        values = (self.fresh.text,) if self.fresh is not None else ()
        if self.definition is None:
            return RecordedVersion(self.snapshot_id, self.content, self.columns, self.schema_id, values=values)
        files = encode_listing(self.files) if self.files is not None else None
        return RecordedVersion(
            definition=self.definition, columns=self.columns, as_read=self.as_read, files=files, values=values
        )


@dataclass(frozen=True, slots=True)
class RelationState:
    """The current state of a relation."""

    is_view: bool = False
    version: Version = Version()
    # What the commit that made the rows says of them; empty when another writer made them.
    identity: CommitIdentity = CommitIdentity()
    drifted: bool = False
    rows: int | None = None
    # The checks that passed on these very rows, by their token.
    checks: str = ""
    # The sqb.* properties of the relation itself.
    properties: Mapping[str, str] = field(default_factory=dict)
    # What the last commit that sqb made says, where something else has written since.
    last_identity: CommitIdentity = CommitIdentity()
    # When sqb last committed to it, in seconds since 1970.
    built_at: float | None = None
    # Its columns were altered after its rows were written.
    is_altered: bool = False

    @property
    def known_identity(self) -> CommitIdentity:
        """The identity of the rows, or the last that sqb left where something else has written since."""
        return self.identity or self.last_identity

    @property
    def hooks_missing(self) -> bool:
        """Whether its rows were published and the post-hooks that belong to them have not run to their end."""
        return bool(self.identity.post_hooks) and self.properties.get(HOOKS_DONE) != self.identity.run_id

    @property
    def local_hash(self) -> str:
        return self.known_identity.local_hash

    @property
    def sources(self) -> Mapping[str, RecordedVersion]:
        """The versions that were read to make it."""
        return parse_sources(self.known_identity.sources) or {}


# An input by its key, and the two snapshots of it that are compared.
Compared = tuple[str, int | None, int | None]


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """What happened to a table between two of its snapshots, as its metadata tells; None where it does not."""

    rows_added: int | None = None
    rows_removed: int | None = None
    files_added: int | None = None
    files_removed: int | None = None
    bytes_added: int | None = None
    bytes_removed: int | None = None
    # The snapshots after the old one up to the new one, newest first; None when the one does not lead to the other.
    steps: tuple[int, ...] | None = None
    is_append: bool = False
    has_delete_files: bool = False
    # Every snapshot, the old one too, has the columns that the table has today.
    has_same_columns: bool = True
    # The old snapshot cannot be read any more.
    is_expired: bool = False
    # Rows of data files that came or went, and rows and values that delete files which came name.
    rows_in_files: int | None = None
    # Rows keep their ids when they are written anew, in every snapshot, the old one too.
    has_row_ids: bool = False
    # About how many rows are read to see what changed: those of files that came, went, or have rows hidden by others.
    rows_to_read: int | None = None

    @property
    def is_estimated(self) -> bool:
        """Whether the rows are an upper bound: rows that were rewritten as they were count as removed and added."""
        return bool(self.rows_added) and bool(self.rows_removed)


@dataclass(frozen=True, slots=True)
class PriorVersion:
    """The relation of a version that a new one begins as; without a snapshot where it cannot be cloned."""

    relation: Relation
    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a plan depends on beside the project."""

    relations: Mapping[Relation, RelationState] = field(default_factory=dict)
    # Nodes that were built into this target before, by history.
    known_nodes: frozenset[str] = frozenset()
    # Stored hashes that today's code would write as another hash, for definitions that did not change.
    renewed_hashes: Mapping[str, str] = field(default_factory=dict)
    # External relations that are views of another writer: what is beneath them is unknown.
    opaque: frozenset[str] = frozenset()
    # Sources whose freshness was observed, and when those with timestamps were last recorded, in seconds since 1970.
    sources: Mapping[str, SourceFreshness] = field(default_factory=dict)
    last_observed: Mapping[str, float] = field(default_factory=dict)
    now: float = 0.0
    # Sources that were asked for their version and do not tell it, with their answers.
    unversioned: Mapping[str, str] = field(default_factory=dict)
    # Sources whose freshness could not be observed, and why: they may have changed, so their readers run.
    unknown: Mapping[str, str] = field(default_factory=dict)
    # The last run of each Python node that did its work.
    python: Mapping[str, LastPythonRun] = field(default_factory=dict)
    # Of nodes that run because of changes: their queries, and what happened to the tables that they read.
    queries: Mapping[str, QueryObservation] = field(default_factory=dict)
    changes: Mapping[Compared, SnapshotChange] = field(default_factory=dict)
    # By node: the rows of large tables that may match changed rows of others, by the columns that are compared.
    matching: Mapping[str, Mapping[tuple[Origin, Origin], int]] = field(default_factory=dict)
    # Of a virtual environment: the nodes that have another version than it shows, and what it shows of those whose new
    # version has no table yet.
    new_versions: frozenset[str] = frozenset()
    priors: Mapping[str, PriorVersion] = field(default_factory=dict)

    def get(self, node: Node) -> RelationState | None:
        return self.relations.get(node.relation)


@dataclass(frozen=True, slots=True)
class Input:
    """Something a node reads, directly or through views: a table by its relation, or a view by its name."""

    key: str
    name: str
    external: bool = False
    view: bool = False
    relation: Relation | None = None
    # The version that the query itself asks for: then `relation` stands for the table at that version.
    travel: TimeTravel | None = None


def list_inputs(node: Node, project: Project) -> tuple[Input, ...]:
    """The tables beneath a node, seen through views, and the views on the way; each once, sorted."""
    if project.nodes.get(node.name) is not node:
        return _resolve_inputs(_list_steps(node, node.upstream), project, node.kind == "view")
    key = ("inputs", node.name)
    inputs: tuple[Input, ...] | None = project.memo.get(key)
    if inputs is None:
        steps = _list_steps(node, node.upstream)
        inputs = project.memo[key] = _resolve_inputs(steps, project, node.kind == "view")
    return inputs


def list_inputs_of_names(names: Iterable[str], project: Project) -> tuple[Input, ...]:
    """The tables beneath names, seen through views, and the views on the way; each once, sorted."""
    return _resolve_inputs([(name, None) for name in names], project)


def build_version_relation(relation: Relation, travel: TimeTravel) -> Relation:
    """The key under which the state of a table at a version that a query asks for is looked up."""
    return Relation(relation.schema, f"{relation.name} {travel.clause}")


def _list_steps(part: Node | SourceQuery, names: Iterable[str]) -> list[tuple[str, TimeTravel | None]]:
    """What a query reads, each with the version that it asks for; None where that is the build's."""
    if not any(slot.is_pinned for slot in part.slots):
        return [(name, None) for name in names]
    versions: dict[str, list[TimeTravel | None]] = {}
    for name, slot in zip(part.reads, part.slots, strict=True):
        versions.setdefault(name, []).append(parse_time_travel(part.sql, slot))
    return [(name, travel) for name in names for travel in versions.get(name, [None])]


def _resolve_inputs(
    steps: Iterable[tuple[str, TimeTravel | None]], project: Project, is_by_place: bool = False
) -> tuple[Input, ...]:
    inputs: dict[str, Input] = {}
    stack = list(steps)
    while stack:
        name, travel = stack.pop()
        above = project.nodes.get(name)
        declared = project.sources.get(name)
        if above is None and declared is not None and not declared.is_table:
            inputs[f"source {name}"] = Input(f"source {name}", name, external=True, relation=declared.relation)
            query = declared.expression
            stack.extend(_list_steps(query, query.reads) if query is not None else ())
        elif above is None:
            relation = project.externals[name].relation
            relation = build_version_relation(relation, travel) if travel is not None else relation
            inputs[str(relation)] = Input(str(relation), name, external=True, relation=relation, travel=travel)
        else:
            made = _build_node_input(above, project, is_by_place and bool(above.former_names))
            inputs[made.key] = made
            if made.view:
                stack.extend(_list_steps(above, above.upstream))
            elif travel is not None:
                # Branches and tags of a model's table are moved by others, like the tables of others.
                at = build_version_relation(above.relation, travel)
                inputs[str(at)] = Input(str(at), name, external=True, relation=at, travel=travel)
    return tuple(inputs[key] for key in sorted(inputs))


def _build_node_input(node: Node, project: Project, is_by_place: bool) -> Input:
    """A node as what others read; for all of them it is the same, but of a renamed one for views."""
    key = ("input", node.name, is_by_place)
    made: Input | None = project.memo.get(key)
    if made is None:
        name = node.get_input_key(is_by_place)
        made = project.memo[key] = Input(name, node.name, view=node.kind == "view", relation=node.relation)
    return made


def compute_view_definition(name: str, project: Project) -> str:
    """The identity of what a view means, views beneath it included."""
    memo, stack = project.memo, [name]
    while stack:
        node = project.nodes[stack[-1]]
        views = [u for u in node.upstream if u in project.nodes and project.nodes[u].kind == "view"]
        unknown = [u for u in views if ("view", u) not in memo]
        if unknown:
            stack += unknown
            continue
        memo["view", stack.pop()] = digest("view", node.local_hash, *(memo["view", u] for u in views))
    definition: str = memo["view", name]
    return definition


def find_version(
    upstream_input: Input, project: Project, observed: Mapping[Relation, RelationState], requested: Read | None = None
) -> Version | None:
    """The current version of an input; None when it does not exist. `requested` are the columns read of a view."""
    current = observed.get(upstream_input.relation) if upstream_input.relation else None
    if upstream_input.view:
        columns = current.version.columns if current else ""
        as_read = compute_view_identity(upstream_input.name, project, requested) if requested is not None else ""
        return Version(
            definition=compute_view_definition(upstream_input.name, project), columns=columns, as_read=as_read
        )
    source = project.sources.get(upstream_input.name) if upstream_input.external else None
    if source is not None and source.expression is not None:
        # The text of a view holds the expression, so that views compare it as they compare columns.
        return Version(definition=source.token, columns=source.token)
    if source is not None and source.function is not None and not source.function.versioned:
        # Nothing tells one time from another: its readers run for other reasons.
        return Version(definition="volatile")
    return current.version if current else None


def list_versions_read(
    node: Node, project: Project, relations: Mapping[Relation, RelationState]
) -> tuple[tuple[Input, Version], ...]:
    """What a node reads, each with its current version."""
    reads = resolve_column_reads(node, project)
    versions = (
        (i, find_version(i, project, relations, _get_columns_read(reads, i))) for i in list_inputs(node, project)
    )
    return tuple((i, v) for i, v in versions if v is not None)


def _get_columns_read(reads: Mapping[str, Read], upstream_input: Input) -> Read:
    """The columns that are read of an input; those of a table count for all of its versions."""
    key = (
        upstream_input.key.removesuffix(f" {upstream_input.travel.clause}")
        if upstream_input.travel is not None
        else upstream_input.key
    )
    return reads.get(key, EVERYTHING)


def is_same_version(recorded: RecordedVersion | None, now: Version | None, columns_only: bool = False) -> bool:
    """Whether an input is as it was when it was read."""
    if recorded is None or recorded.unreadable or now is None:
        return False
    has_same_columns = recorded.columns == now.columns
    if now.definition is not None:
        if recorded.definition is None:
            return False
        if columns_only:
            return has_same_columns
        return recorded.definition == now.definition or (has_same_columns and _is_fresh(recorded, now))
    if not recorded.is_table or not has_same_columns:
        return False
    if columns_only or (recorded.content is not None and recorded.content == now.content) or _is_fresh(recorded, now):
        return True
    # Columns of these names may have been other ones since.
    has_same_fields = recorded.schema_id is None or recorded.schema_id == now.schema_id
    return has_same_fields and (recorded.snapshot_id == now.snapshot_id or recorded.snapshot_id in now.same_rows)


def _is_fresh(recorded: RecordedVersion, now: Version) -> bool:
    return now.fresh is not None and now.fresh.is_covering(recorded)


def list_changed_inputs(
    node: Node, project: Project, current: RelationState, relations: Mapping[Relation, RelationState]
) -> tuple[Input, ...]:
    """The inputs that are not as they were, in what the node reads of them; for a view only their columns matter."""
    recorded = current.sources
    inputs = list_inputs(node, project)
    is_view = node.kind == "view"
    versions = [(i, recorded.get(i.key), find_version(i, project, relations)) for i in inputs]
    changed = [
        i
        for i, then, now in versions
        if not is_same_version(then, now, columns_only=is_view)
        if not _is_unrecorded_travel(i, project, recorded)
    ]
    moved = [] if is_view else [i for i, then, now in versions if _is_moved(then, now)]
    if moved and not has_storage_reads(node, project):
        moved = []
    if changed:
        reads = resolve_column_reads(node, project)

        def _has_other_columns(upstream_input: Input) -> bool:
            then, now = recorded.get(upstream_input.key), find_version(upstream_input, project, relations)
            if then is None or now is None or upstream_input.view or now.definition is not None:
                return now is None
            return bool(list_column_differences(then, now, reads.get(upstream_input.key, EVERYTHING)))

        def is_same(upstream_input: Input) -> bool:
            read = _get_columns_read(reads, upstream_input)
            then, now = recorded.get(upstream_input.key), find_version(upstream_input, project, relations, read)
            if then is None or now is None:
                return False
            if upstream_input.view:
                return not is_view and then.as_read == now.as_read
            return is_same_as_read(then, now, read, is_view) or is_fresh_as_read(then, now, read)

        quiet = list_quiet_lookups(node)
        changed = [i for i in changed if not (is_same(i) or (i.name in quiet and not _has_other_columns(i)))]
    changed = [i for i in inputs if i in changed or i in moved]
    gone = recorded.keys() - {i.key for i in inputs}
    return tuple(changed) or tuple(Input(key, key) for key in sorted(gone))


def _is_unrecorded_travel(upstream_input: Input, project: Project, recorded: Mapping[str, RecordedVersion]) -> bool:
    """Whether an earlier sqb built this from a version of a model's table, and did not record which one it was."""
    return (
        upstream_input.travel is not None
        and upstream_input.name in project.nodes
        and upstream_input.key not in recorded
    )


def _is_moved(then: RecordedVersion | None, now: Version | None) -> bool:
    """Whether the rows of a table may be stored in other places than they were, for a node that shows those places."""
    if then is None or now is None or now.definition is not None or now.fresh is not None:
        return False
    return then.is_table and then.snapshot_id != now.snapshot_id


def list_quiet_lookups(node: Node) -> frozenset[str]:
    """The lookups of a log that add nothing by themselves, views on the way to them among them."""
    return frozenset(lookup.name for lookup in node.lookups if not lookup.adds_late)


def list_schema_changes(
    changed: Iterable[Input],
    node: Node,
    project: Project,
    current: RelationState,
    relations: Mapping[Relation, RelationState],
) -> list[str]:
    """What happened to the columns that a node reads, in words, for each of its changed inputs with such a change."""
    recorded, reads = current.sources, resolve_column_reads(node, project)
    changes = []
    for upstream_input in changed:
        then, now = recorded.get(upstream_input.key), find_version(upstream_input, project, relations)
        if then is None or now is None:
            continue
        if upstream_input.view and node.kind == "view":
            changes.append(f"{upstream_input.name} has other columns")
        elif not upstream_input.view and then.is_table and now.definition is None:
            texts = list_column_differences(then, now, _get_columns_read(reads, upstream_input))
            changes += [f"{upstream_input.name} {', '.join(texts)}"] if texts else []
    return changes


def compute_checks_token(node: Node, project: Project, relations: Mapping[Relation, RelationState]) -> str:
    """What is recorded beside rows that pass the node's checks; "" when it has none.

    It holds the versions of what only the checks read. A view has no rows of its own: what it reads counts too.
    """
    return next(_iter_checks_tokens(node, project, relations), "")


def has_passed_checks(node: Node, project: Project, relations: Mapping[Relation, RelationState]) -> bool:
    """Whether a node's checks have passed on its rows, looking at what they look at now.

    A relation that they look up may have changed, as long as its rows are what they were in the columns that they use.
    """
    current = relations.get(node.relation)
    if current is None:
        return False
    return current.checks in islice(_iter_checks_tokens(node, project, relations), _TOKENS)


def _iter_checks_tokens(node: Node, project: Project, relations: Mapping[Relation, RelationState]) -> Iterator[str]:
    """What may be recorded of checks that need not be asked again; first what is recorded today."""
    if not node.checks_hash:
        return
    names = node.after if node.kind == "view" else node.watches
    columns = node.checks.columns if node.kind != "view" else {}
    choices = []
    for upstream_input in list_inputs_of_names(names, project):
        version = find_version(upstream_input, project, relations)
        rows = [compute_rows_token(version)] if version is not None else [""]
        if (
            version is not None
            and version.fresh is None
            and version.definition is None
            and upstream_input.name in columns
        ):
            used = set(columns[upstream_input.name])
            rows += [
                content
                for content, _, unchanged in parse_unchanged_columns(version.unchanged_columns)
                if used <= set(unchanged)
            ]
        choices.append([f"{upstream_input.key}={text}" for text in rows])
    for versions in product(*choices):
        yield f"{node.checks_hash}.{digest('versions', *versions)}"


def compute_rows_token(version: Version) -> str:
    """The same text for the same rows, whatever commit they came in."""
    if version.fresh is not None:
        return f"{version.fresh.token}:{version.fresh.baseline or version.fresh.value}"
    return version.definition or version.content or str((version.same_rows or (version.snapshot_id,))[-1])


def record_sources(inputs: Iterable[tuple[Input, Version]]) -> str:
    """The versions read, as the text that is committed with the rows."""
    return encode_sources({i.key: v.record() for i, v in inputs})
