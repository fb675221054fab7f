"""The virtual environments of a project in one round of the janitor: facts gathered, decisions carried out.

Where the store does not answer or is not the one that the lake belongs to, or tables are of a project or target that it
knows nothing of, nothing is touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqb.environments.model import Binding, Checkpoint, Environment, Journal, Ref, Status, Version
from sqb.environments.naming import is_physical
from sqb.environments.remove_views import list_views, remove_environment, remove_views
from sqb.environments.state.pairing import pair_lake, read_pairing
from sqb.environments.state.store import Store, VersionKey
from sqb.environments.view_properties import STATE
from sqb.errors.base import SqbError
from sqb.errors.environments import EnvironmentLocked, ForeignState
from sqb.lake.janitor.report import JanitorAction
from sqb.lake.port import Lake, Pointer
from sqb.names import Relation

if TYPE_CHECKING:
    from sqb.lake.janitor.run import Janitor

_EXPIRED = "nothing was built or promoted there for longer than its ttl"
_UNKNOWN = "the state does not know its environment"
# Among what nothing refers to, and since when, the views of environments that the state does not know.
_VIEWS_PREFIX = "views of "
_SPARE = "beyond keep_checkpoints"
_UNUSED = "no environment and no kept checkpoint has referred to it for longer than grace"


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """The retention settings of a project; environments in `protected` never expire."""

    protected: frozenset[str]
    grace: float
    keep_checkpoints: int
    owner: str


class NoEnvironments:
    """A project without environments: those of others that share its lake are left alone."""

    def clean_up(self, janitor: Janitor) -> Iterator[JanitorAction]:
        """Nothing is this project's."""
        return iter(())

    def find_needed_snapshots(self, relation: Relation) -> Collection[int] | None:
        """None for tables of environments: this project cannot know which snapshots they need."""
        return None if is_physical(relation) else ()


class EnvironmentsJanitor:
    """One round through the environments of a store."""

    def __init__(self, store: Store, lake: Lake, rules: RetentionRules) -> None:
        self.store, self.lake, self.rules = store, lake, rules
        self._owned: frozenset[str] = frozenset()
        self._references: References | None = None
        # Views that would be gone by now, in a dry run.
        self._removed_views: set[Relation] = set()
        self._unknown_since: dict[str, datetime] = {}

    def find_needed_snapshots(self, relation: Relation) -> Collection[int] | None:
        """The snapshots of a table that environments and checkpoints show; None when that is unknown."""
        name = str(relation)
        if is_physical(relation) and (self._references is None or name not in self._owned):
            return None
        return self._references.snapshots.get(name, frozenset()) if self._references is not None else ()

    def clean_up(self, janitor: Janitor) -> Iterator[JanitorAction]:
        """Let expired environments go, checkpoints beyond their number, and what nothing refers to any more."""
        now = datetime.fromtimestamp(janitor.now, UTC)
        try:
            read_pairing(self.store, self.lake).check_match()
            if not janitor.dry_run and self.store.read_environments():
                pair_lake(self.store, self.lake)
            facts = self._read_store()
            expired = find_expired(facts, self.rules.protected, now)
            for name in expired:
                yield self._remove_environment(facts.environments[name], now, janitor.dry_run)
            yield from self._remove_unknown_views(facts, now, janitor.dry_run)
            spare = self._find_spare_checkpoints(facts, expired)
            for name, ids in spare.items():
                yield self._remove_checkpoints(name, ids, janitor.dry_run)
            if janitor.dry_run:
                facts = exclude(facts, expired, [i for ids in spare.values() for i in ids])
            else:
                facts = self._read_store()
            yield from self._drop_unused_versions(janitor, facts, now)
        except SqbError as error:
            self._references = None
            hint = f" ({error.hint})" if isinstance(error, ForeignState) else ""
            yield JanitorAction("kept", "virtual environments", f"{error.message}; nothing of them was touched{hint}")

    def _read_store(self) -> StoreFacts:
        with self.store.read_consistently():
            environments = self.store.read_environments()
            return StoreFacts(
                environments=environments,
                refs={name: self.store.read_refs(name) for name in environments},
                journals=self.store.read_journals(),
                checkpoints=self.store.read_checkpoints(),
                bindings=self.store.read_bindings(),
                versions=self.store.read_versions(),
                unused=self.store.read_unused(),
                foreign=frozenset(self.store.read_foreign_relations()),
            )

    # --- environments -----------------------------------------------------------------------------------------------

    def _remove_environment(self, environment: Environment, now: datetime, dry_run: bool) -> JanitorAction:
        name = environment.name
        if dry_run:
            views_shown = self._list_views().get(name, {})
            self._removed_views |= views_shown.keys()
            return JanitorAction("environment", name, _EXPIRED, environments=1, views=len(views_shown))
        try:
            with self.store.lock(name, self.rules.owner) as token:
                current = self.store.read_environments().get(name)
                if current is None or not is_expired(current, now):
                    return JanitorAction("kept", name, "another process has just built it")
                views = remove_environment(self.store, self.lake, name, token)
        except EnvironmentLocked as error:
            return JanitorAction("kept", name, f"its ttl is over, but {error.message}")
        return JanitorAction("environment", name, _EXPIRED, environments=1, views=views)

    def _remove_unknown_views(self, facts: StoreFacts, now: datetime, dry_run: bool) -> Iterator[JanitorAction]:
        """Views of environments that the state does not know: they go when it has not known them for the grace time.

        A state that was restored from a copy does not know environments that are newer than the copy, so the
        operator needs time to notice. Views that another state made stay for good.
        """
        state, locks, recorded = self.store.read_state_id(), self.store.read_locks(), dict(self.store.read_unused())
        unknown_since: dict[str, datetime] = {}
        for name, views in sorted(self._list_views().items()):
            if name in facts.environments or name in facts.journals or name in locks:
                continue
            owned = {r: p for r, p in views.items() if self._read_state_id(r, p) == state}
            if len(owned) < len(views):
                yield JanitorAction(
                    "kept", name, f"{len(views) - len(owned)} of its views were made with another state"
                )
            since = unknown_since[name] = min(recorded.get(f"{_VIEWS_PREFIX}{name}", now), now)
            if not owned or since + timedelta(seconds=self.rules.grace) > now:
                if owned:
                    yield JanitorAction("kept", name, f"{_UNKNOWN}, but not yet for longer than grace")
                continue
            del unknown_since[name]
            if dry_run:
                self._removed_views |= owned.keys()
            else:
                remove_views(self.lake, owned)
            yield JanitorAction("environment", name, _UNKNOWN, views=len(owned))
        self._unknown_since = {f"{_VIEWS_PREFIX}{name}": since for name, since in unknown_since.items()}

    def _read_state_id(self, relation: Relation, pointer: Pointer) -> str:
        """The id of the state that a view was made with; "" for views of an older sqb."""
        return self.lake.read_tables([pointer])[relation].properties.get(STATE, "")

    def _list_views(self) -> dict[str, dict[Relation, Pointer]]:
        return list_views(self.lake, self.store.scope)

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _find_spare_checkpoints(self, facts: StoreFacts, expired: Collection[str]) -> dict[str, tuple[str, ...]]:
        spare = {n: self._find_spare_of(e, facts) for n, e in facts.environments.items() if n not in expired}
        return {name: ids for name, ids in spare.items() if ids}

    def _find_spare_of(self, environment: Environment, facts: StoreFacts) -> tuple[str, ...]:
        checkpoints = [c for c in facts.checkpoints if c.environment == environment.name]
        journal = facts.journals.get(environment.name)
        pending = (journal.environment.checkpoint,) if journal is not None else ()
        return find_spare_checkpoints(environment.checkpoint, checkpoints, self.rules.keep_checkpoints, pending)

    def _remove_checkpoints(self, name: str, ids: tuple[str, ...], dry_run: bool) -> JanitorAction:
        if not dry_run:
            try:
                with self.store.lock(name, self.rules.owner):
                    # Asked again: a rollback may have gone to one of them.
                    facts = self._read_store()
                    environment = facts.environments.get(name)
                    ids = self._find_spare_of(environment, facts) if environment is not None else ()
                    self.store.remove_checkpoints(ids)
            except EnvironmentLocked as error:
                return JanitorAction("kept", name, f"it has checkpoints {_SPARE}, but {error.message}")
        return JanitorAction("checkpoint", name, _SPARE, checkpoints=len(ids))

    # --- versions ---------------------------------------------------------------------------------------------------

    def _drop_unused_versions(self, janitor: Janitor, facts: StoreFacts, now: datetime) -> Iterator[JanitorAction]:
        current = {str(r) for r in self.lake.list_pointers() if is_physical(r)}
        since = find_unused(facts, current, now)
        expired = filter_past_grace(since, self.rules.grace, now)
        self._owned, self._references = facts.owned, collect_references(facts)
        if expired and (why := self._explain_wait(janitor, facts)):
            yield JanitorAction("kept", _format_versions(len(expired)), f"nothing refers to them, but {why}")
            expired = ()
        dropped = []
        relations = [Relation.parse(name) for name in expired]
        for entry in janitor.drop(relations, _UNUSED, self._removed_views) if expired else ():
            dropped += [entry.name] if entry.what == "version" else []
            yield entry
        if not janitor.dry_run:
            self.store.set_unused({r: first for r, first in since.items() if r not in dropped} | self._unknown_since)
            forgotten = find_dead_versions(facts, current - set(dropped), self.rules.grace, now)
            if forgotten:
                self.store.remove_versions(forgotten)
        waiting = len(since) - len(filter_past_grace(since, self.rules.grace, now))
        if waiting:
            yield JanitorAction(
                "kept", _format_versions(waiting), "nothing refers to them, but not yet for longer than grace"
            )

    def _explain_wait(self, janitor: Janitor, facts: StoreFacts) -> str:
        """Why versions must stay in this round though nothing refers to them: another process may be about to."""
        if janitor.is_busy():
            return "a build is running that may be about to use them"
        locks = self.store.read_locks()
        if locks:
            return f"another process works on {', '.join(sorted(locks))}"
        # A move that began and ended while all this was read is not in it.
        if self.store.read_environments() != facts.environments and not janitor.dry_run:
            return "an environment moved in this moment"
        return ""


def _format_versions(number: int) -> str:
    return f"{number} version{'s' if number > 1 else ''} of models"


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The contents of a store at one moment."""

    environments: Mapping[str, Environment] = field(default_factory=dict)
    # By environment, and there by the nodes' names.
    refs: Mapping[str, Mapping[str, Ref]] = field(default_factory=dict)
    journals: Mapping[str, Journal] = field(default_factory=dict)
    checkpoints: Sequence[Checkpoint] = ()
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    versions: Mapping[VersionKey, Version] = field(default_factory=dict)
    # Physical relations that nothing referred to in an earlier round, and since when.
    unused: Mapping[str, datetime] = field(default_factory=dict)
    # Physical relations that other projects and targets refer to.
    foreign: frozenset[str] = frozenset()

    @property
    def owned(self) -> frozenset[str]:
        """The physical relations that only this project and target own."""
        made = (v.relation for v in self.versions.values())
        bound = (b.relation for b in self.bindings.values())
        return frozenset(str(r) for r in (*made, *bound) if r is not None) - self.foreign


@dataclass(frozen=True, slots=True)
class References:
    """Relations, versions and snapshots that environments and checkpoints reference."""

    relations: frozenset[str]
    versions: frozenset[VersionKey]
    # Snapshots of tables that views show, or would show after a rollback.
    snapshots: Mapping[str, frozenset[int]]


def find_expired(facts: StoreFacts, protected: Collection[str], now: datetime) -> tuple[str, ...]:
    """The environments that have not been built or promoted to for longer than they were meant to live.

    Those in `protected` never go, and neither does one that another began as, or that is detached.
    """
    baselines = {e.baseline for e in facts.environments.values() if e.baseline != e.name}
    permanent = {*protected, *baselines}
    return tuple(sorted(n for n, e in facts.environments.items() if n not in permanent and is_expired(e, now)))


def is_expired(environment: Environment, now: datetime) -> bool:
    """Whether an environment has lived for longer than it was meant to."""
    if environment.ttl is None or environment.status is Status.DETACHED:
        return False
    return environment.updated_at + timedelta(seconds=environment.ttl) < now


def find_spare_checkpoints(
    position: str, checkpoints: Iterable[Checkpoint], keep: int, pending: Collection[str] = ()
) -> tuple[str, ...]:
    """The checkpoints of an environment that are beyond the number to keep, oldest first.

    Kept are the newest, and as many on the way back from where the environment is; `pending` are those that it is about
    to be at.
    """
    by_id = {c.id: c for c in checkpoints}
    newest = sorted(by_id.values(), key=_age_key, reverse=True)[: max(1, keep)]
    retained = {c.id for c in newest} | set(pending)
    for start in (position, *pending):
        retained.update(_iter_parents(start, by_id, max(1, keep)))
    return tuple(c.id for c in sorted(by_id.values(), key=_age_key) if c.id not in retained)


def _age_key(checkpoint: Checkpoint) -> tuple[datetime, int, str]:
    return (checkpoint.created_at, checkpoint.number, checkpoint.id)


def _iter_parents(start: str, by_id: Mapping[str, Checkpoint], steps: int) -> Iterator[str]:
    seen: set[str] = set()
    while start in by_id and start not in seen and len(seen) < steps:
        seen.add(start)
        yield start
        start = by_id[start].parent


def exclude(facts: StoreFacts, environments: Collection[str], checkpoints: Collection[str]) -> StoreFacts:
    """What a store would say without some environments and checkpoints."""
    remaining = [c for c in facts.checkpoints if c.environment not in environments and c.id not in checkpoints]
    return replace(
        facts,
        environments={n: e for n, e in facts.environments.items() if n not in environments},
        refs={n: r for n, r in facts.refs.items() if n not in environments},
        journals={n: j for n, j in facts.journals.items() if n not in environments},
        checkpoints=remaining,
    )


def collect_references(facts: StoreFacts) -> References:
    """Everything that a ref, a checkpoint or an unfinished move leads to."""
    relations: set[str] = set()
    versions: set[VersionKey] = set()
    snapshots: dict[str, set[int]] = {}
    for binding in _iter_bindings(facts):
        versions.add((binding.name, binding.version_hash))
        if binding.relation is not None:
            relations.add(str(binding.relation))
        for relation, snapshot in binding.reads:
            relations.add(relation)
            snapshots.setdefault(relation, set()).add(snapshot)
        if binding.relation is not None and binding.snapshot_id is not None:
            snapshots.setdefault(str(binding.relation), set()).add(binding.snapshot_id)
        # A view reads by name what it was made from, wherever environments have got to since.
        above = facts.versions if binding.kind == "view" else {}
        made_from = (above.get(key) for key in binding.upstream.items())
        relations.update(str(v.relation) for v in made_from if v is not None and v.relation is not None)
    return References(frozenset(relations), frozenset(versions), {r: frozenset(ids) for r, ids in snapshots.items()})


def _iter_bindings(facts: StoreFacts) -> Iterator[Binding]:
    for refs in (*facts.refs.values(), *(j.refs for j in facts.journals.values())):
        for ref in refs.values():
            yield ref.binding
    ids = {i for c in _iter_checkpoints(facts) for i in c.refs.values()}
    yield from (facts.bindings[i] for i in sorted(ids) if i in facts.bindings)


def _iter_checkpoints(facts: StoreFacts) -> Iterator[Checkpoint]:
    yield from facts.checkpoints
    yield from (j.checkpoint for j in facts.journals.values() if j.checkpoint is not None)


def find_unused(facts: StoreFacts, current: Collection[str], now: datetime) -> dict[str, datetime]:
    """The physical relations of this project and target that nothing refers to, and since when that is known."""
    spare = (facts.owned & set(current)) - collect_references(facts).relations
    return {relation: min(facts.unused.get(relation, now), now) for relation in sorted(spare)}


def filter_past_grace(since: Mapping[str, datetime], grace: float, now: datetime) -> tuple[str, ...]:
    """Those that nothing has referred to for longer than the grace time."""
    return tuple(r for r, first in since.items() if first + timedelta(seconds=grace) <= now)


def find_dead_versions(
    facts: StoreFacts, current: Collection[str], grace: float, now: datetime
) -> tuple[VersionKey, ...]:
    """The versions that nothing refers to and that have no table any more, or never had one."""
    references = collect_references(facts)
    present = {*current, *references.relations}
    return tuple(
        key
        for key, version in sorted(facts.versions.items(), key=lambda item: item[0])
        if key not in references.versions
        and (version.relation is None or str(version.relation) not in present)
        and (version.created_at is None or version.created_at + timedelta(seconds=grace) <= now)
    )
