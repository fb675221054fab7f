"""The virtual environments of a project in one round of the janitor: facts gathered, decisions carried out.

Where the store does not answer or is not the one that the lake belongs to, or tables are of a project or target that it
knows nothing of, nothing is touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqb.environments.cleaning import (
    Known,
    Needed,
    expired_environments,
    forgotten_versions,
    is_expired,
    past_grace,
    spare_checkpoints,
    unused_since,
    what_is_needed,
    without,
)
from sqb.environments.naming import is_physical
from sqb.environments.pairing import look_at_pair, pair
from sqb.environments.port import Store
from sqb.environments.properties import STATE
from sqb.environments.removing import remove_environment, remove_views, views_by_environment
from sqb.environments.values import Environment
from sqb.errors import SqbError
from sqb.errors_environments import EnvironmentLocked, ForeignState
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Pointer
from sqb.lake.swept import Swept
from sqb.names import Relation

if TYPE_CHECKING:
    from sqb.lake.janitor import Janitor

_EXPIRED = "nothing was built or promoted there for longer than its ttl"
_LEFT = "the state does not know its environment"
# Among what nothing refers to, and since when, the views of environments that the state does not know.
_VIEWS_OF = "views of "
_SPARE = "beyond keep_checkpoints"
_UNUSED = "no environment and no kept checkpoint has referred to it for longer than grace"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a project says of its environments' lives; `protected` are those that never end."""

    protected: frozenset[str]
    grace: float
    keep_checkpoints: int
    owner: str


class NoEnvironments:
    """A project without environments: those of others that share its lake are left alone."""

    def swept(self, janitor: Janitor) -> Iterator[Swept]:
        """Nothing is this project's."""
        return iter(())

    def holds(self, relation: Relation) -> Collection[int] | None:
        """Of the tables of environments nobody here can tell what is needed."""
        return None if is_physical(relation) else ()


class EnvironmentsJanitor:
    """One round through the environments of a store."""

    def __init__(self, store: Store, lake: IcebergLake, rules: Rules) -> None:
        self.store, self.lake, self.rules = store, lake, rules
        self._own: frozenset[str] = frozenset()
        self._needed: Needed | None = None
        # Views that would be gone by now, in a dry run.
        self._gone: set[Relation] = set()
        self._left: dict[str, datetime] = {}

    def holds(self, relation: Relation) -> Collection[int] | None:
        """The snapshots of a table that environments and checkpoints show; None when nobody can tell."""
        name = str(relation)
        if is_physical(relation) and (self._needed is None or name not in self._own):
            return None
        return self._needed.snapshots.get(name, frozenset()) if self._needed is not None else ()

    def swept(self, janitor: Janitor) -> Iterator[Swept]:
        """Let expired environments go, checkpoints beyond their number, and what nothing refers to any more."""
        now = datetime.fromtimestamp(janitor.now, UTC)
        try:
            look_at_pair(self.store, self.lake).refuse_foreign()
            if not janitor.dry_run and self.store.environments():
                pair(self.store, self.lake)
            known = self._known()
            expired = expired_environments(known, self.rules.protected, now)
            for name in expired:
                yield self._remove_environment(known.environments[name], now, janitor.dry_run)
            yield from self._views_left(known, now, janitor.dry_run)
            spare = self._spare(known, expired)
            for name, ids in spare.items():
                yield self._remove_checkpoints(name, ids, janitor.dry_run)
            if janitor.dry_run:
                known = without(known, expired, [i for ids in spare.values() for i in ids])
            else:
                known = self._known()
            yield from self._versions(janitor, known, now)
        except SqbError as error:
            self._needed = None
            hint = f" ({error.hint})" if isinstance(error, ForeignState) else ""
            yield Swept("kept", "virtual environments", f"{error.message}; nothing of them was touched{hint}")

    def _known(self) -> Known:
        with self.store.looking():
            environments = self.store.environments()
            return Known(
                environments=environments,
                refs={name: self.store.refs(name) for name in environments},
                journals=self.store.journals(),
                checkpoints=self.store.checkpoints(),
                bindings=self.store.bindings(),
                versions=self.store.versions(),
                unused=self.store.unused(),
                elsewhere=frozenset(self.store.elsewhere()),
            )

    # --- environments -----------------------------------------------------------------------------------------------

    def _remove_environment(self, environment: Environment, now: datetime, dry_run: bool) -> Swept:
        name = environment.name
        if dry_run:
            shown = self._views().get(name, {})
            self._gone |= shown.keys()
            return Swept("environment", name, _EXPIRED, environments=1, views=len(shown))
        try:
            with self.store.lock(name, self.rules.owner) as token:
                there = self.store.environments().get(name)
                if there is None or not is_expired(there, now):
                    return Swept("kept", name, "somebody has built it in this moment")
                views = remove_environment(self.store, self.lake, name, token)
        except EnvironmentLocked as error:
            return Swept("kept", name, f"its ttl is over, but {error.message}")
        return Swept("environment", name, _EXPIRED, environments=1, views=views)

    def _views_left(self, known: Known, now: datetime, dry_run: bool) -> Iterator[Swept]:
        """Views of environments that the state does not know: they go when it has not known them for the grace time.

        A state that was restored from a copy does not know environments that are newer than the copy, so somebody must
        have the time to notice. Views that another state made stay for good.
        """
        state, locks, noted = self.store.state_id(), self.store.locks(), dict(self.store.unused())
        left: dict[str, datetime] = {}
        for name, views in sorted(self._views().items()):
            if name in known.environments or name in known.journals or name in locks:
                continue
            own = {r: p for r, p in views.items() if self._made_by(r, p) == state}
            if len(own) < len(views):
                yield Swept("kept", name, f"{len(views) - len(own)} of its views were made with another state")
            since = left[name] = min(noted.get(f"{_VIEWS_OF}{name}", now), now)
            if not own or since + timedelta(seconds=self.rules.grace) > now:
                if own:
                    yield Swept("kept", name, f"{_LEFT}, but not yet for longer than grace")
                continue
            del left[name]
            if dry_run:
                self._gone |= own.keys()
            else:
                remove_views(self.lake, own)
            yield Swept("environment", name, _LEFT, views=len(own))
        self._left = {f"{_VIEWS_OF}{name}": since for name, since in left.items()}

    def _made_by(self, relation: Relation, pointer: Pointer) -> str:
        """The id of the state that a view was made with; "" for views of an older sqb."""
        return self.lake.tables([pointer])[relation].properties.get(STATE, "")

    def _views(self) -> dict[str, dict[Relation, Pointer]]:
        return views_by_environment(self.lake, self.store.scope)

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _spare(self, known: Known, expired: Collection[str]) -> dict[str, tuple[str, ...]]:
        found = {n: self._spare_of(e, known) for n, e in known.environments.items() if n not in expired}
        return {name: ids for name, ids in found.items() if ids}

    def _spare_of(self, environment: Environment, known: Known) -> tuple[str, ...]:
        mine = [c for c in known.checkpoints if c.environment == environment.name]
        journal = known.journals.get(environment.name)
        pending = (journal.environment.checkpoint,) if journal is not None else ()
        return spare_checkpoints(environment.checkpoint, mine, self.rules.keep_checkpoints, pending)

    def _remove_checkpoints(self, name: str, ids: tuple[str, ...], dry_run: bool) -> Swept:
        if not dry_run:
            try:
                with self.store.lock(name, self.rules.owner):
                    # Asked again: a rollback may have gone to one of them.
                    known = self._known()
                    there = known.environments.get(name)
                    ids = self._spare_of(there, known) if there is not None else ()
                    self.store.remove_checkpoints(ids)
            except EnvironmentLocked as error:
                return Swept("kept", name, f"it has checkpoints {_SPARE}, but {error.message}")
        return Swept("checkpoint", name, _SPARE, checkpoints=len(ids))

    # --- versions ---------------------------------------------------------------------------------------------------

    def _versions(self, janitor: Janitor, known: Known, now: datetime) -> Iterator[Swept]:
        standing = {str(r) for r in self.lake.pointers() if is_physical(r)}
        since = unused_since(known, standing, now)
        going = past_grace(since, self.rules.grace, now)
        self._own, self._needed = known.own, what_is_needed(known)
        if going and (why := self._why_to_wait(janitor, known)):
            yield Swept("kept", _many(len(going)), f"nothing refers to them, but {why}")
            going = ()
        dropped = []
        relations = [Relation.parse(name) for name in going]
        for one in janitor.drop(relations, _UNUSED, self._gone) if going else ():
            dropped += [one.name] if one.what == "version" else []
            yield one
        if not janitor.dry_run:
            self.store.set_unused({r: first for r, first in since.items() if r not in dropped} | self._left)
            forgotten = forgotten_versions(known, standing - set(dropped), self.rules.grace, now)
            if forgotten:
                self.store.remove_versions(forgotten)
        waiting = len(since) - len(past_grace(since, self.rules.grace, now))
        if waiting:
            yield Swept("kept", _many(waiting), "nothing refers to them, but not yet for longer than grace")

    def _why_to_wait(self, janitor: Janitor, known: Known) -> str:
        """Why versions must stay in this round though nothing refers to them: somebody may be about to."""
        if janitor.is_busy():
            return "a build is running that may be about to use them"
        locks = self.store.locks()
        if locks:
            return f"somebody works on {', '.join(sorted(locks))}"
        # A move that began and ended while all this was read is not in it.
        if self.store.environments() != known.environments and not janitor.dry_run:
            return "an environment moved in this moment"
        return ""


def _many(number: int) -> str:
    return f"{number} version{'s' if number > 1 else ''} of models"
