"""Where environments are kept: what the rest of sqb may ask of a store, whatever database is behind it.

A store is of one scope, a project and a target: environments of two scopes never meet. Every method is one transaction.
What moves an environment needs its lock, and is refused when that was taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from sqb.environments.model import Binding, Checkpoint, Environment, Journal, LockInfo, Ref, Version
from sqb.lake.state.rows import Fingerprint, FreshnessRow

VersionKey = tuple[str, str]


class Store(Protocol):
    """The environments of one scope."""

    @property
    def scope(self) -> str:
        """Whose environments these are."""

    @property
    def name(self) -> str:
        """What people call the database; without passwords."""

    # --- the database itself ----------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        """Set the database up, or bring its tables to this sqb's version; False when they were so already."""

    def read_schema_version(self) -> int | None:
        """The version of the tables; None when there are none."""

    def read_state_id(self) -> str:
        """The id of the database: no other one has it."""

    def read_lake_id(self) -> str:
        """The id of the lake that the environments of this scope are in; "" until it is set."""

    def set_lake_id(self, id: str) -> None:
        """Write down which lake the environments of this scope are in."""

    def close(self) -> None:
        """Let go of the database; locks that are held are not."""

    def read_consistently(self) -> AbstractContextManager[None]:
        """Serve all reads of this thread from one transaction, which is faster; nothing may be written within."""

    # --- environments -----------------------------------------------------------------------------------------------

    def read_environments(self) -> Mapping[str, Environment]:
        """All environments, by name."""

    def read_refs(self, environment: str) -> Mapping[str, Ref]:
        """What an environment shows, by the nodes' names; nothing for one that is not there."""

    def count_refs(self) -> Mapping[str, int]:
        """How many nodes each environment shows."""

    def set_environment(self, environment: Environment, token: str) -> None:
        """Change the properties of an environment beside its refs."""

    def remove_environment(self, name: str, token: str) -> None:
        """Forget an environment, its refs, checkpoints and observations.

        Those whose baseline it was forget where they agreed with it; whoever calls this has their locks too.
        """

    # --- moving one -------------------------------------------------------------------------------------------------

    def read_journal(self, environment: str) -> Journal | None:
        """What the environment was about to become when a command ended too early."""

    def read_journals(self) -> Mapping[str, Journal]:
        """The same of all environments, also of those that are not there yet."""

    def begin_journal(self, journal: Journal, token: str) -> None:
        """Write down what an environment is about to become; refused when the lock is not `token` any more."""

    def finish_journal(self, journal: Journal, locations: Mapping[str, str]) -> bool:
        """Make the environment what the journal says, and forget the journal; False when another process has done so.

        `locations` are the metadata files of the views that were made, by the nodes' names; the others keep theirs.
        """

    def abandon_journal(self, journal: Journal) -> None:
        """Forget a journal whose views cannot be made."""

    # --- versions and checkpoints -----------------------------------------------------------------------------------

    def read_bindings(self, ids: Collection[str] | None = None) -> Mapping[str, Binding]:
        """Bindings by their ids; without ids all of them."""

    def add_versions(self, versions: Iterable[Version]) -> None:
        """Keep what versions are; those that are known stay as they are."""

    def read_versions(self, keys: Collection[VersionKey] | None = None) -> Mapping[VersionKey, Version]:
        """Versions by name and hash; without keys all of them."""

    def remove_versions(self, keys: Collection[VersionKey]) -> None:
        """Forget versions whose tables are gone."""

    def read_checkpoints(self, environment: str | None = None) -> Sequence[Checkpoint]:
        """The checkpoints of an environment, or of all, newest first."""

    def remove_checkpoints(self, ids: Collection[str]) -> None:
        """Forget checkpoints, and bindings that nothing refers to any more."""

    def read_unused(self) -> Mapping[str, datetime]:
        """Physical relations that nothing refers to, and since when that is known."""

    def set_unused(self, since: Mapping[str, datetime]) -> None:
        """Replace what is known of unused relations."""

    def read_foreign_relations(self) -> Collection[str]:
        """Physical relations that environments of other scopes in the same database refer to."""

    # --- observations -----------------------------------------------------------------------------------------------

    def read_freshness(self, environment: str) -> Sequence[FreshnessRow]:
        """The latest observation of each source in an environment."""

    def add_freshness(self, environment: str, rows: Iterable[FreshnessRow]) -> None:
        """Keep observations; the latest of a source and schema stays."""

    def read_fingerprints(self, environment: str) -> Sequence[Fingerprint]:
        """What Python nodes were when they last ran in an environment."""

    def add_fingerprints(self, environment: str, rows: Iterable[Fingerprint]) -> None:
        """Keep what Python nodes were; the latest of a node stays."""

    def copy_observations(self, source: str, target: str) -> None:
        """Give an environment what another one knows of sources and Python nodes."""

    # --- locks ------------------------------------------------------------------------------------------------------

    def lock(self, environment: str, owner: str, take_over: bool = False) -> AbstractContextManager[str]:
        """Be the only one who moves an environment, and get the token that proves it.

        Raises EnvironmentLocked with the owner and the age of the lock when another has it; `take_over` takes it all
        the same, and what the other one does then is refused. A lock ends with the process that has it.
        """

    def read_locks(self) -> Mapping[str, LockInfo]:
        """Who works on which environment."""
