"""What commands of `sqb state` did, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from sqb.console.environments.listing import (
    format_adoptions,
    format_changes,
    format_checkpoint,
    format_checkpoints,
    format_environment,
    format_summaries,
)
from sqb.environments.state.pairing import Match
from sqb.operations.environments.checkpoints import CheckpointComparison, CheckpointDetails, CheckpointList
from sqb.operations.environments.state import (
    AttachmentChanged,
    EnvironmentDetails,
    EnvironmentRemoved,
    StateInitialized,
    StateMigrated,
    StateOverview,
    StatePaired,
    TablesAdopted,
)

StateResult = (
    StateInitialized
    | StateMigrated
    | StatePaired
    | StateOverview
    | EnvironmentDetails
    | AttachmentChanged
    | EnvironmentRemoved
    | TablesAdopted
    | CheckpointList
    | CheckpointDetails
    | CheckpointComparison
)


def format_state(result: StateResult, width: int | None = None) -> Iterator[str]:
    """The result of a command of `sqb state`."""
    match result:
        case StateOverview():
            yield from format_summaries(result.environments, width)
        case EnvironmentDetails():
            yield from format_environment(result.summary, result.refs, result.views_missing, width)
        case TablesAdopted():
            yield from format_adoptions(result.adoptions, result.environment, result.dry_run)
        case CheckpointList():
            yield from format_checkpoints(result.checkpoints, result.current, width)
        case CheckpointDetails():
            yield from format_checkpoint(result.checkpoint, result.bindings.values(), width)
        case CheckpointComparison():
            yield from format_changes(result.before, result.after, result.changes, width)
        case _:
            yield _format_message(result)


def _format_message(
    result: StateInitialized | StateMigrated | StatePaired | AttachmentChanged | EnvironmentRemoved,
) -> str:
    match result:
        case StateInitialized(made=made, version=version):
            return f"{result.store} {'is set up' if made else 'was set up already'} (version {version})"
        case StateMigrated(migrated=migrated, before=before, version=after):
            message = f"is at version {after} now, from {before}" if migrated else f"is at version {after} already"
            return f"{result.store} {message}"
        case StatePaired():
            return f"this lake and {result.store} {_PAIRED[result.before.match]}"
        case AttachmentChanged():
            return _format_attachment(result)
        case EnvironmentRemoved(environment=name, views=views, was_known=True):
            message = f"{name} is gone: {views} {'view' if views == 1 else 'views'} removed"
            return f"{message}; `sqb janitor` removes the tables that nothing needs"
        case EnvironmentRemoved(environment=name, views=views):
            return f"{views} views of {name} are gone"


_PAIRED = {
    Match.FOREIGN: "belong together from now on; views that another state made stay until a build replaces them",
    Match.PAIRED: "belong together already",
    Match.UNPAIRED: "belong together from now on",
}


def _format_attachment(result: AttachmentChanged) -> str:
    name, after, unchanged = result.after.name, result.after, result.before == result.after
    if result.action == "detach":
        return f"{name} was detached already" if unchanged else f"{name} is detached; it was {after.was}"
    message = f"{name} was not detached; it" if unchanged else f"{name} is attached again; it"
    return f"{message} is {after.status}"
