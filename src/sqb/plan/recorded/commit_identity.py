"""What a commit says of the rows that it made: the `sqb.*` properties of a snapshot, or of a view.

This module alone knows their keys. It knows neither how a commit is made nor what follows from an identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from sqb.light_dataclass import dataclass

# What begins so belongs to sqb, in commits as in the properties of tables and views.
PREFIX = "sqb."
# Of the form of an identity: sqb refuses what a newer one has written.
IDENTITY_VERSION = 1

# These are also properties of a table itself: whose it is, and which checks passed on its rows since their commit.
MODEL = "sqb.model"
LOADER = "sqb.loader"
CHECKS = "sqb.checks"
FIGURES = "sqb.figures"
# Spark writes this one into the commits of a materialisation's own.
IN_PROGRESS = "sqb.making"


def _stored_as(key: str) -> Any:
    return field(default="", metadata={"key": key})


@dataclass(frozen=True, slots=True)
class CommitIdentity:
    """The identity of a table's rows, as their commit holds it; a field is "" where the commit does not have it."""

    model: str = _stored_as(MODEL)
    local_hash: str = _stored_as("sqb.local_hash")
    version_hash: str = _stored_as("sqb.version_hash")
    query_hash: str = _stored_as("sqb.query_hash")
    config_hash: str = _stored_as("sqb.config_hash")
    # The code that made the canonical form of the query.
    canonical: str = _stored_as("sqb.canonical")
    # The versions that were read, as `plan.versions` encodes them.
    sources: str = _stored_as("sqb.sources")
    run_id: str = _stored_as("sqb.run_id")
    run_type: str = _stored_as("sqb.run_type")
    seconds: str = _stored_as("sqb.seconds")
    # The version of sqb, and that of the form of the identity.
    version: str = _stored_as("sqb.version")
    identity_version: str = _stored_as("sqb.identity_version")
    git: str = _stored_as("sqb.git")
    # The checksum of the rows; those of a seed and of a loader are computed in ways of their own.
    content: str = _stored_as("sqb.content")
    # The earlier contents that the rows still have, in some of their columns: see `plan.column_changes`.
    unchanged_columns: str = _stored_as("sqb.kept")
    # The hashes of the functions and macros that the query used, and of its text before macros.
    functions: str = _stored_as("sqb.functions")
    written_hash: str = _stored_as("sqb.written_hash")
    # The settings of the session that can change a result: see `plan.session_settings`.
    settings: str = _stored_as("sqb.settings")
    # The token of the checks that passed, and the figures that they compare with the next ones.
    checks: str = _stored_as(CHECKS)
    figures: str = _stored_as(FIGURES)
    # The replays that made the rows what they are, and those of the inputs that were seen: see `plan.replay`.
    replays: str = _stored_as("sqb.replays")
    replays_seen: str = _stored_as("sqb.replays_seen")
    # Of a model with a cursor: its largest value; of a log, up to where other definitions made its rows; and the window
    # of a run whose end was given.
    cursor_max: str = _stored_as("sqb.cursor_max")
    cursor_floor: str = _stored_as("sqb.cursor_floor")
    window: str = _stored_as("sqb.window")
    # The figures of the model's groups that belong to the rows, as `plan.group_state` encodes them; and of such figures
    # the table whose groups they are of.
    group_state: str = _stored_as("sqb.group_state")
    group_state_of: str = _stored_as("sqb.group_state_of")
    # How long the last refresh and the last rebuild took: see `plan.timings`.
    timings: str = _stored_as("sqb.timings")
    # "due" where the node has post-hooks, which run after the commit.
    post_hooks: str = _stored_as("sqb.post_hooks")
    # The table and snapshot of another target that the rows are from, and the table of the time before there were
    # environments.
    reused_from: str = _stored_as("sqb.reused_from")
    adopted: str = _stored_as("sqb.adopted")
    # The loader that wrote a source's rows, and what its run returned, as JSON: its next run goes on from there.
    loader: str = _stored_as(LOADER)
    loader_result: str = _stored_as("sqb.loader_result")
    # The run of a materialisation that has yet to say what the rows are.
    in_progress: str = _stored_as(IN_PROGRESS)
    # What else is there under sqb's prefix: of a newer version, or of the view that has the identity.
    other: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> CommitIdentity:
        """Read the identity out of the properties of a commit or a view; those without sqb's prefix are left out."""
        known: dict[str, str] = {}
        other: dict[str, str] = {}
        for key, value in properties.items():
            name = _FIELDS.get(key)
            if name is not None and value and isinstance(value, str):
                known[name] = value
            elif key.startswith(PREFIX):
                other[key] = value
        return cls(**known, other=other)

    def to_properties(self) -> dict[str, str]:
        """The properties that are written into a commit: those that it was read from, where it was read."""
        known = {key: value for key, name in _FIELDS.items() if (value := getattr(self, name))}
        return {**self.other, **known}

    def __bool__(self) -> bool:
        """Whether sqb made the commit at all."""
        # Nearly every commit of sqb's names a model; comparing all fields takes much longer, and a plan asks often.
        return bool(self.model) or self != _NO_IDENTITY

    def merge(self, over: CommitIdentity) -> CommitIdentity:
        """This identity, with what another one records in the place of its own."""
        return CommitIdentity.from_properties({**self.to_properties(), **over.to_properties()})

    def exclude(self, recorded: CommitIdentity) -> CommitIdentity:
        """What is recorded here and not in another identity, whatever the values there."""
        excluded = recorded.to_properties()
        return CommitIdentity.from_properties({k: v for k, v in self.to_properties().items() if k not in excluded})

    @property
    def duration(self) -> float:
        """How long the run took to make the rows, in seconds; 0 where the commit does not tell."""
        try:
            return float(self.seconds or 0)
        except ValueError:
            return 0.0


_FIELDS: Mapping[str, str] = {f.metadata["key"]: f.name for f in fields(CommitIdentity) if "key" in f.metadata}
_NO_IDENTITY = CommitIdentity()
