"""What planning knows of the world, as values. Somebody else has looked; nothing here does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from sqb.compiled import Node, Project
from sqb.compiled_sources import SourceQuery
from sqb.identity import digest
from sqb.names import Relation
from sqb.plan.schema import (
    EVERYTHING,
    Field,
    Read,
    differences,
    is_fresh_as_read,
    kept_contents,
    reads_of,
    reads_storage,
    same_as_read,
    view_as_read,
)
from sqb.sql.time_travel import Travel, travel_of

if TYPE_CHECKING:
    from sqb.plan.freshness import SourceSeen
    from sqb.plan.python_nodes import PythonSeen

# In the commit of a model's rows: it has post-hooks. On the relation: the run whose post-hooks have run.
HOOKS = "sqb.post_hooks"
HOOKS_DONE = "sqb.post_hooks_done"
# In the commit of rows whose columns changed: the contents of before that they still have, as `kept_contents` reads.
KEPT = "sqb.kept"

# In the commit of a source's rows, and on the table that it made: the loader that wrote them.
LOADER = "sqb.loader"

# In a commit of a materialisation's own: the run that has yet to say what the rows are.
MAKING = "sqb.making"

# The name of a file, its size and when it was modified, in nanoseconds.
FileStamp = tuple[str, int, int]
# A commit says which files were read; of more than these only how many they were.
_FILES_LISTED = 100
# How many combinations of earlier contents are tried for checks.
_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Fresh:
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

    def covers(self, recorded: list[Any]) -> bool:
        """Whether a reader of the source as it was then need not read it again.

        The recorded value must be near enough by itself: a reader may have missed what others have seen since.
        """
        then = self.of(recorded)
        return self.unchanged and then is not None and not has_moved(self.kind, then, self.value, self.lag)

    def of(self, recorded: list[Any]) -> str | None:
        """The value that was recorded for the same question; None when there is none."""
        start = f"{self.token}:"
        found = (part for part in recorded if isinstance(part, str) and part.startswith(start))
        return next((part.removeprefix(start) for part in found), None)


def has_moved(kind: str, old: str, new: str, lag: float | None) -> bool:
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


def listing_record(files: tuple[FileStamp, ...]) -> Any:
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
    kept: str = ""
    # Of a view: what it is in the columns that are read of it.
    as_read: str = ""
    # For files: the name, size and time of each.
    files: tuple[FileStamp, ...] | None = None
    # For a source whose freshness is told by values: today's, and whether it counts as new.
    fresh: Fresh | None = None

    def record(self) -> list[Any]:
        """What is written beside the rows that were made from this version."""
        if self.definition is not None:
            listed = [] if self.files is None else [listing_record(self.files)]
            return [self.definition, self.columns, *([self.as_read] if self.as_read else []), *listed, *self._value]
        found = [self.snapshot_id, self.content, self.columns]
        return found if self.schema_id is None and self.fresh is None else [*found, self.schema_id, *self._value]

    @property
    def _value(self) -> list[str]:
        return [self.fresh.text] if self.fresh is not None else []


@dataclass(frozen=True, slots=True)
class _Recorded(Version):
    """A version of which only the record is known."""

    written: tuple[Any, ...] = ()

    def record(self) -> list[Any]:
        return list(self.written)


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands at a relation."""

    is_view: bool = False
    version: Version = Version()
    # The sqb.* properties of the commit that made the rows; empty when somebody else made them.
    identity: Mapping[str, str] = field(default_factory=dict)
    drifted: bool = False
    rows: int | None = None
    # The checks that passed on these very rows, by their token.
    checks: str = ""
    # The sqb.* properties of the relation itself.
    properties: Mapping[str, str] = field(default_factory=dict)
    # The sqb.* properties of the last commit that sqb made, where something else has written since.
    left: Mapping[str, str] = field(default_factory=dict)
    # When sqb last committed to it, in seconds since 1970.
    made_at: float | None = None

    @property
    def hooks_missing(self) -> bool:
        """Whether its rows were published and the post-hooks that belong to them have not run to their end."""
        due = self.identity.get(HOOKS)
        return due is not None and self.properties.get(HOOKS_DONE) != self.identity.get("sqb.run_id")

    @property
    def local_hash(self) -> str:
        return (self.identity or self.left).get("sqb.local_hash", "")

    @property
    def sources(self) -> Mapping[str, list[Any]]:
        """The versions that were read to make it."""
        try:
            found = json.loads((self.identity or self.left).get("sqb.sources", "{}"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a plan depends on beside the project."""

    relations: Mapping[Relation, Standing] = field(default_factory=dict)
    # Nodes that were built into this target before, by history.
    known: frozenset[str] = frozenset()
    # Stored hashes that today's code would write as another hash, for definitions that did not change.
    renewed: Mapping[str, str] = field(default_factory=dict)
    # External relations that are views nobody here built: what is beneath them cannot be seen.
    opaque: frozenset[str] = frozenset()
    # Sources whose freshness was observed, and when those with timestamps were last recorded, in seconds since 1970.
    sources: Mapping[str, SourceSeen] = field(default_factory=dict)
    last_observed: Mapping[str, float] = field(default_factory=dict)
    now: float = 0.0
    # Sources that were asked for their version and do not tell it, with what they said.
    untold: Mapping[str, str] = field(default_factory=dict)
    # Sources whose freshness could not be observed, and why: nobody knows whether they changed, so their readers run.
    unknown: Mapping[str, str] = field(default_factory=dict)
    # The last run of each Python node that did its work.
    python: Mapping[str, PythonSeen] = field(default_factory=dict)

    def of(self, node: Node) -> Standing | None:
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
    travel: Travel | None = None


def inputs_of(node: Node, project: Project) -> tuple[Input, ...]:
    """The tables beneath a node, seen through views, and the views on the way; each once, sorted."""
    return _inputs(_steps(node, node.upstream), project)


def inputs_of_names(names: Iterable[str], project: Project) -> tuple[Input, ...]:
    """The tables beneath names, seen through views, and the views on the way; each once, sorted."""
    return _inputs([(name, None) for name in names], project)


def relation_at(relation: Relation, travel: Travel) -> Relation:
    """What stands for a table at a version that a query asks for, where relations are looked up."""
    return Relation(relation.schema, f"{relation.name} {travel.clause}")


def _steps(part: Node | SourceQuery, names: Iterable[str]) -> list[tuple[str, Travel | None]]:
    """What a query reads, each with the version that it asks for; None where that is the build's."""
    if not any(slot.fixed for slot in part.slots):
        return [(name, None) for name in names]
    asked: dict[str, list[Travel | None]] = {}
    for name, slot in zip(part.reads, part.slots, strict=True):
        asked.setdefault(name, []).append(travel_of(part.sql, slot))
    return [(name, travel) for name in names for travel in asked.get(name, [None])]


def _inputs(steps: Iterable[tuple[str, Travel | None]], project: Project) -> tuple[Input, ...]:
    found: dict[str, Input] = {}
    stack = list(steps)
    while stack:
        name, travel = stack.pop()
        above = project.nodes.get(name)
        declared = project.sources.get(name)
        if above is None and declared is not None and not declared.is_table:
            found[f"source {name}"] = Input(f"source {name}", name, external=True, relation=declared.relation)
            query = declared.expression
            stack.extend(_steps(query, query.reads) if query is not None else ())
        elif above is None:
            relation = project.externals[name].relation
            relation = relation_at(relation, travel) if travel is not None else relation
            found[str(relation)] = Input(str(relation), name, external=True, relation=relation, travel=travel)
        elif above.kind == "view":
            found[f"view {name}"] = Input(f"view {name}", name, view=True, relation=above.relation)
            stack.extend(_steps(above, above.upstream))
        else:
            found[str(above.relation)] = Input(str(above.relation), name, relation=above.relation)
    return tuple(found[key] for key in sorted(found))


def view_definition(name: str, project: Project) -> str:
    """The identity of what a view means, views beneath it included."""
    node = project.nodes[name]
    beneath = (
        view_definition(u, project) for u in node.upstream if u in project.nodes and project.nodes[u].kind == "view"
    )
    return digest("view", node.local_hash, *beneath)


def version_of(
    found: Input, project: Project, observed: Mapping[Relation, Standing], asked: Read | None = None
) -> Version | None:
    """The version of an input that stands now; None when it does not exist. `asked` is what is read of a view."""
    standing = observed.get(found.relation) if found.relation else None
    if found.view:
        columns = standing.version.columns if standing else ""
        as_read = view_as_read(found.name, project, asked) if asked is not None else ""
        return Version(definition=view_definition(found.name, project), columns=columns, as_read=as_read)
    source = project.sources.get(found.name) if found.external else None
    if source is not None and source.expression is not None:
        # The text of a view holds the expression, so that views compare it as they compare columns.
        return Version(definition=source.token, columns=source.token)
    if source is not None and source.function is not None and not source.function.versioned:
        # Nothing tells one time from another: its readers run for other reasons.
        return Version(definition="volatile")
    return standing.version if standing else None


def versions_read(
    node: Node, project: Project, relations: Mapping[Relation, Standing]
) -> tuple[tuple[Input, Version], ...]:
    """What a node reads, and the version of each that stands now."""
    reads = reads_of(node, project)
    found = ((i, version_of(i, project, relations, _read_of(reads, i))) for i in inputs_of(node, project))
    return tuple((i, v) for i, v in found if v is not None)


def _read_of(reads: Mapping[str, Read], found: Input) -> Read:
    """The columns that are read of an input; those of a table count for all of its versions."""
    key = found.key.removesuffix(f" {found.travel.clause}") if found.travel is not None else found.key
    return reads.get(key, EVERYTHING)


def recorded_version(recorded: list[Any]) -> Version:
    """The version that was written down, to be written down again."""
    return _Recorded(written=tuple(recorded))


def same_version(recorded: list[Any] | None, now: Version | None, columns_only: bool = False) -> bool:
    """Whether an input is as it was when it was read."""
    if recorded is None or now is None:
        return False
    if now.definition is not None:
        if columns_only or recorded[:1] == [now.definition]:
            return not columns_only or recorded[1:2] == [now.columns]
        return now.fresh is not None and recorded[1:2] == [now.columns] and now.fresh.covers(recorded[2:])
    if len(recorded) < 3 or recorded[2] != now.columns:
        return False
    if columns_only or (recorded[1] is not None and recorded[1] == now.content):
        return True
    if now.fresh is not None and now.fresh.covers(recorded[3:]):
        return True
    # Columns of these names may have been other ones since.
    same_fields = len(recorded) < 4 or recorded[3] == now.schema_id
    return same_fields and (recorded[0] == now.snapshot_id or recorded[0] in now.same_rows)


def changed_inputs(
    node: Node, project: Project, standing: Standing, relations: Mapping[Relation, Standing]
) -> tuple[Input, ...]:
    """The inputs that are not as they were, in what the node reads of them; for a view only their columns matter."""
    recorded = standing.sources
    inputs = inputs_of(node, project)
    is_view = node.kind == "view"
    changed = [
        i
        for i in inputs
        if not same_version(recorded.get(i.key), version_of(i, project, relations), columns_only=is_view)
    ]
    moved = _moved_inputs(node, project, standing, relations)
    if changed:
        reads = reads_of(node, project)

        def _has_other_columns(one: Input) -> bool:
            then, now = recorded.get(one.key), version_of(one, project, relations)
            if then is None or now is None or one.view or now.definition is not None:
                return now is None
            return len(then) < 3 or bool(differences(then, now, reads.get(one.key, EVERYTHING)))

        def is_same(one: Input) -> bool:
            read = _read_of(reads, one)
            then, now = recorded.get(one.key), version_of(one, project, relations, read)
            if then is None or now is None:
                return False
            if one.view:
                return not is_view and then[2:3] == [now.as_read]
            return same_as_read(then, now, read, is_view) or is_fresh_as_read(then, now, read)

        quiet = quiet_lookups(node)
        changed = [i for i in changed if not (is_same(i) or (i.name in quiet and not _has_other_columns(i)))]
    changed = [i for i in inputs if i in changed or i in moved]
    gone = recorded.keys() - {i.key for i in inputs}
    return tuple(changed) or tuple(Input(key, key) for key in sorted(gone))


def _moved_inputs(
    node: Node, project: Project, standing: Standing, relations: Mapping[Relation, Standing]
) -> tuple[Input, ...]:
    """The tables whose rows are stored in other places than they were, for a node that shows those places."""
    if node.kind == "view" or not reads_storage(node, project):
        return ()
    found = ((i, standing.sources.get(i.key), version_of(i, project, relations)) for i in inputs_of(node, project))
    return tuple(
        i
        for i, then, now in found
        if then is not None and now is not None and now.definition is None and now.fresh is None
        if len(then) > 2 and then[0] != now.snapshot_id
    )


def quiet_lookups(node: Node) -> frozenset[str]:
    """The lookups of a log that add nothing by themselves, views on the way to them among them."""
    return frozenset(one.name for one in node.lookups if not one.adds_late)


def schema_changes(
    changed: Iterable[Input], node: Node, project: Project, standing: Standing, relations: Mapping[Relation, Standing]
) -> list[str]:
    """What happened to the columns that a node reads, in words, for each of its changed inputs with such a change."""
    recorded, reads = standing.sources, reads_of(node, project)
    found = []
    for one in changed:
        then, now = recorded.get(one.key), version_of(one, project, relations)
        if then is None or now is None:
            continue
        if one.view and node.kind == "view":
            found.append(f"{one.name} has other columns")
        elif not one.view and len(then) > 2 and now.definition is None:
            texts = differences(then, now, _read_of(reads, one))
            found += [f"{one.name} {', '.join(texts)}"] if texts else []
    return found


def checks_token(node: Node, project: Project, relations: Mapping[Relation, Standing]) -> str:
    """What is recorded beside rows that pass the node's checks; "" when it has none.

    It holds the versions of what only the checks read. A view has no rows of its own: what it reads counts too.
    """
    return next(_tokens_of_checks(node, project, relations), "")


def has_passed(node: Node, project: Project, relations: Mapping[Relation, Standing]) -> bool:
    """Whether a node's checks have passed on its rows, looking at what they look at now.

    A relation that they look up may have changed, as long as its rows are what they were in the columns that they use.
    """
    standing = relations.get(node.relation)
    if standing is None:
        return False
    return standing.checks in islice(_tokens_of_checks(node, project, relations), _TOKENS)


def _tokens_of_checks(node: Node, project: Project, relations: Mapping[Relation, Standing]) -> Iterator[str]:
    """What may be recorded of checks that need not be asked again; first what is recorded today."""
    if not node.checks_hash:
        return
    names = node.after if node.kind == "view" else node.watches
    columns: Mapping[str, list[str]] = node.checks[2] if len(node.checks) > 2 and node.kind != "view" else {}
    choices = []
    for found in inputs_of_names(names, project):
        version = version_of(found, project, relations)
        rows = [rows_token(version)] if version is not None else [""]
        if version is not None and version.fresh is None and version.definition is None and found.name in columns:
            used = set(columns[found.name])
            rows += [content for content, _, kept in kept_contents(version.kept) if used <= set(kept)]
        choices.append([f"{found.key}={text}" for text in rows])
    for versions in product(*choices):
        yield f"{node.checks_hash}.{digest('versions', *versions)}"


def rows_token(version: Version) -> str:
    """The same text for the same rows, whatever commit they came in."""
    if version.fresh is not None:
        return f"{version.fresh.token}:{version.fresh.baseline or version.fresh.value}"
    return version.definition or version.content or str((version.same_rows or (version.snapshot_id,))[-1])


def record_sources(inputs: Iterable[tuple[Input, Version]]) -> str:
    """The versions read, as the text that is committed with the rows."""
    return json.dumps({i.key: v.record() for i, v in inputs}, separators=(",", ":"), sort_keys=True)
