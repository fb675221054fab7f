"""`sqb state`: the database of virtual environments, and what is in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.build.observe.lake import open_lake
from sqb.cli.build import open_project
from sqb.cli.confirm import confirm
from sqb.console.environments import (
    encode_adoption,
    encode_binding,
    encode_change,
    encode_checkpoint,
    encode_summary,
    format_adoptions,
    format_changes,
    format_checkpoint,
    format_checkpoints,
    format_environment,
    format_summaries,
)
from sqb.console.style import Paint
from sqb.environments.describe import (
    compare_checkpoints,
    detach,
    find_checkpoint,
    get_environment,
    list_summaries,
    reattach,
)
from sqb.environments.model import Environment
from sqb.environments.remove_views import check_not_baseline, list_dependents, list_views, remove_views
from sqb.environments.session import describe_owner, get_baseline, get_default_environment, open_workspace_store
from sqb.environments.state.pairing import Match, Pairing, pair_lake, read_pairing, repair_pairing
from sqb.environments.state.store import Store
from sqb.environments.views import drop_environment, find_misplaced_views, lock_environment
from sqb.errors.call import CallError
from sqb.errors.environments import StateNotReady
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Pointer
from sqb.names import Relation
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class StateCall:
    """What all commands of `sqb state` begin with."""

    workspace: Workspace
    store: Store
    as_json: bool

    def print_result(self, lines: Iterable[str], **document: Any) -> int:
        """Print lines for people, or one document."""
        if self.as_json:
            target = {"target": self.workspace.project.target}
            print(json.dumps({**target, **document}, indent=2, ensure_ascii=False))
        else:
            for line in lines:
                print(line)
        return 0


def open_call(
    project_dir: Path, target: str | None, variables: str | None, as_json: bool, verbose: bool, debug: bool
) -> StateCall:
    """The store that the common options name."""
    workspace = open_project(project_dir, target, variables)
    return StateCall(workspace, open_workspace_store(workspace), as_json)


def run_init(**common: Any) -> int:
    """Set the database up."""
    call = open_call(**common)
    made = call.store.prepare()
    version = call.store.read_schema_version()
    message = "is set up" if made else "was set up already"
    return call.print_result([f"{call.store.name} {message} (version {version})"], made=made, version=version)


def run_migrate(**common: Any) -> int:
    """Bring the tables of an older sqb to this one's version."""
    call = open_call(**common)
    before = call.store.read_schema_version()
    if before is None:
        message = f"{call.store.name} has not been set up for virtual environments"
        raise StateNotReady(message, hint="run `sqb state init` once")
    migrated = call.store.prepare()
    after = call.store.read_schema_version()
    message_text = f"is at version {after} now, from {before}" if migrated else f"is at version {after} already"
    return call.print_result([f"{call.store.name} {message_text}"], migrated=migrated, before=before, version=after)


def run_pair(yes: bool, **common: Any) -> int:
    """Let the lake and the state belong together, whatever either says."""
    call = open_call(**common)
    lake = open_lake(call.workspace)
    pairing = read_pairing(call.store, lake)
    if pairing.match is Match.FOREIGN:
        confirm(f"{pairing.why}. Let this lake and this state belong together?", yes)
        repair_pairing(call.store, lake)
        message = "belong together from now on; views that another state made stay until a build replaces them"
    else:
        pair_lake(call.store, lake)
        message = "belong together already" if pairing.match is Match.PAIRED else "belong together from now on"
    document = {"state": pairing.to_data(), "paired": pairing.match is not Match.PAIRED}
    return call.print_result([f"this lake and {call.store.name} {message}"], **document)


def _warn_if_foreign(call: StateCall) -> Pairing:
    """Say on standard error where the lake's environments are kept in another state; looking goes on all the same."""
    pairing = read_pairing(call.store, open_lake(call.workspace))
    if pairing.match is Match.FOREIGN:
        print(Paint(sys.stderr)(f"warning: {pairing.why}", "yellow"), file=sys.stderr)
    return pairing


def run_show(virtual_env: str | None, **common: Any) -> int:
    """Print all environments, or one with what it shows."""
    call = open_call(**common)
    pairing = _warn_if_foreign(call)
    summaries = list_summaries(call.store)
    if virtual_env is None:
        state = {"name": call.store.name, "version": call.store.read_schema_version(), **pairing.to_data()}
        return call.print_result(
            format_summaries(summaries), state=state, environments=[encode_summary(o) for o in summaries]
        )
    get_environment(virtual_env, {o.environment.name: o.environment for o in summaries})
    (summary,) = (o for o in summaries if o.environment.name == virtual_env)
    refs = call.store.read_refs(virtual_env)
    unsuffixed = call.workspace.virtual.unsuffixed
    missing = sorted(find_misplaced_views(open_lake(call.workspace), virtual_env, refs, unsuffixed))
    nodes = [{**encode_binding(ref.binding), "base": ref.base or None} for ref in refs.values()]
    document = {**encode_summary(summary), "views_missing": missing}
    return call.print_result(format_environment(summary, refs, missing), environment=document, nodes=nodes)


def run_detach(name: str, take_over: bool, **common: Any) -> int:
    """Refuse builds, promotions and rollbacks of an environment from now on."""
    call = open_call(**common)
    before, after = _set_attachment(call, name, take_over, "detach")
    message = f"{name} was detached already" if before == after else f"{name} is detached; it was {after.was}"
    return call.print_result([message], environment=name, status=str(after.status), was=after.was)


def run_reattach(name: str, take_over: bool, **common: Any) -> int:
    """Allow builds, promotions and rollbacks of an environment again."""
    call = open_call(**common)
    before, after = _set_attachment(call, name, take_over, "reattach")
    message = f"{name} was not detached; it" if before == after else f"{name} is attached again; it"
    return call.print_result(
        [f"{message} is {after.status}"], environment=name, status=str(after.status), was=after.was
    )


def run_remove(name: str, take_over: bool, yes: bool, force: bool, **common: Any) -> int:
    """Take an environment away, with its views and checkpoints."""
    call = open_call(**common)
    lake, known = open_lake(call.workspace), call.store.read_environments()
    if name not in known and (views_left := list_views(lake, call.store.scope).get(name)):
        return _remove_unknown_views(call, lake, name, views_left, yes)
    get_environment(name, known)
    check_not_baseline(name, known, force)
    if others := list_dependents(name, known):
        confirm(
            f"{name} is the baseline of {', '.join(others)}, which forget where they agreed with it. Remove it?", yes
        )
    elif name in (get_baseline(call.workspace), call.workspace.virtual.unsuffixed):
        confirm(
            f"{name} is the baseline that new environments begin as. Remove it with its views and checkpoints?", yes
        )
    views = drop_environment(call.store, lake, name, describe_owner(f"sqb state remove {name}"), take_over, force)
    message = f"{name} is gone: {views} {'view' if views == 1 else 'views'} removed"
    return call.print_result(
        [f"{message}; `sqb janitor` removes the tables that nothing needs"], environment=name, views=views
    )


def _remove_unknown_views(
    call: StateCall, lake: IcebergLake, name: str, views: Mapping[Relation, Pointer], yes: bool
) -> int:
    """Take away the views of an environment that the state does not know, such as those of a state that was lost."""
    read_pairing(call.store, lake).check_match()
    confirm(f"the state does not know {name}, and the lake has {len(views)} views of it. Remove them?", yes)
    remove_views(lake, views)
    return call.print_result([f"{len(views)} views of {name} are gone"], environment=name, views=len(views))


def run_adopt(dry_run: bool, yes: bool, take_over: bool, **common: Any) -> int:
    """Take tables that were built before there were environments into the baseline."""
    from sqb.build.failpoints import read_failpoint
    from sqb.environments.adopt import adopt_tables

    call = open_call(**common)
    lake, owner = open_lake(call.workspace), describe_owner("sqb state adopt")
    adoptions = adopt_tables(call.workspace, call.store, lake, owner, dry_run=True)
    adopted = [adoption for adoption in adoptions if not adoption.why_not]
    leaving = [adoption for adoption in adopted if adoption.gave_way]
    if adopted and not dry_run:
        if leaving:
            confirm(f"{len(leaving)} relations leave their names until the next build makes views there. Go on?", yes)
        adoptions = adopt_tables(
            call.workspace, call.store, lake, owner, take_over=take_over, announce=read_failpoint()
        )
    lines = format_adoptions(adoptions, get_baseline(call.workspace), dry_run)
    return call.print_result(
        lines, environment=get_baseline(call.workspace), nodes=[encode_adoption(o) for o in adoptions]
    )


def _set_attachment(call: StateCall, name: str, take_over: bool, word: str) -> tuple[Environment, Environment]:
    get_environment(name, call.store.read_environments())
    owner = describe_owner(f"sqb state {word} {name}")
    with lock_environment(call.store, open_lake(call.workspace), name, owner, take_over) as token:
        # Read again: before the lock was held, another process may have changed or removed it.
        before = get_environment(name, call.store.read_environments())
        after = detach(before) if word == "detach" else reattach(before)
        if after != before:
            call.store.set_environment(after, token)
        return before, after


def run_checkpoints(words: tuple[str, ...], virtual_env: str | None, **common: Any) -> int:
    """Print checkpoints, one of them with what it holds, or what differs between two."""
    call = open_call(**common)
    _warn_if_foreign(call)
    match words:
        case () | ("list",):
            return _list_checkpoints(call, virtual_env)
        case ("show", wanted):
            return _show_checkpoint(call, wanted, virtual_env)
        case ("diff", first, second):
            return _diff_checkpoints(call, first, second, virtual_env)
        case _:
            ways = "`sqb state checkpoints [list]`, `… show ID` and `… diff ID ID`"
            raise CallError(
                f'"{" ".join(words)}" is nothing that can be done with checkpoints', hint=f"there are {ways}"
            )


def _list_checkpoints(call: StateCall, virtual_env: str | None) -> int:
    with call.store.read_consistently():
        known, checkpoints = call.store.read_environments(), call.store.read_checkpoints(virtual_env)
    if virtual_env is not None:
        get_environment(virtual_env, known)
    current = {name: environment.checkpoint for name, environment in known.items()}
    return call.print_result(
        format_checkpoints(checkpoints, current), checkpoints=[encode_checkpoint(c, current) for c in checkpoints]
    )


def _show_checkpoint(call: StateCall, reference: str, virtual_env: str | None) -> int:
    name = virtual_env or get_default_environment(call.workspace)
    with call.store.read_consistently():
        known = call.store.read_environments()
        checkpoint = find_checkpoint(reference, name, known, call.store.read_checkpoints())
        bindings = call.store.read_bindings(set(checkpoint.refs.values()))
    current = {name: environment.checkpoint for name, environment in known.items()}
    nodes = [encode_binding(bindings[checkpoint.refs[node]]) for node in sorted(checkpoint.refs)]
    lines = format_checkpoint(checkpoint, bindings.values())
    return call.print_result(lines, checkpoint=encode_checkpoint(checkpoint, current), nodes=nodes)


def _diff_checkpoints(call: StateCall, first: str, second: str, virtual_env: str | None) -> int:
    name = virtual_env or get_default_environment(call.workspace)
    with call.store.read_consistently():
        known, checkpoints = call.store.read_environments(), call.store.read_checkpoints()
        before, after = (find_checkpoint(reference, name, known, checkpoints) for reference in (first, second))
        bindings = call.store.read_bindings({*before.refs.values(), *after.refs.values()})
    changes = list(compare_checkpoints(before, after, bindings))
    current = {name: environment.checkpoint for name, environment in known.items()}
    sides = {"before": encode_checkpoint(before, current), "after": encode_checkpoint(after, current)}
    return call.print_result(format_changes(before, after, changes), **sides, nodes=[encode_change(c) for c in changes])
