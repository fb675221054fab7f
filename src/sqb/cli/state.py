"""`sqb state`: the database of virtual environments, and what is in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.build.observe import open_lake
from sqb.cli.build import opened
from sqb.cli.confirm import confirm
from sqb.console.environments import (
    adoption_data,
    adoption_lines,
    binding_data,
    change_data,
    change_lines,
    checkpoint_data,
    checkpoint_lines,
    environment_lines,
    one_checkpoint_lines,
    overview_data,
    overview_lines,
)
from sqb.console.paint import Paint
from sqb.environments.entering import baseline_of, default_environment, owner_here, store_of
from sqb.environments.looking import changes_between, detached, existing, find_checkpoint, overviews, reattached
from sqb.environments.moving import locked, misplaced_views, take_away
from sqb.environments.pairing import Match, Pairing, look_at_pair, pair, pair_anew
from sqb.environments.port import Store
from sqb.environments.removing import began_as, refuse_baseline, remove_views, views_by_environment
from sqb.environments.values import Environment
from sqb.errors import CallError
from sqb.errors_environments import StateNotReady
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Pointer
from sqb.names import Relation
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Called:
    """What all commands of `sqb state` begin with."""

    workspace: Workspace
    store: Store
    as_json: bool

    def tell(self, lines: Iterable[str], **document: Any) -> int:
        """Print lines for people, or one document."""
        if self.as_json:
            target = {"target": self.workspace.project.target}
            print(json.dumps({**target, **document}, indent=2, ensure_ascii=False))
        else:
            for line in lines:
                print(line)
        return 0


def called(
    project_dir: Path, target: str | None, variables: str | None, as_json: bool, verbose: bool, debug: bool
) -> Called:
    """The store that the common options name."""
    workspace = opened(project_dir, target, variables)
    return Called(workspace, store_of(workspace), as_json)


def run_init(**common: Any) -> int:
    """Set the database up."""
    call = called(**common)
    made = call.store.prepare()
    version = call.store.schema_version()
    says = "is set up" if made else "was set up already"
    return call.tell([f"{call.store.name} {says} (version {version})"], made=made, version=version)


def run_migrate(**common: Any) -> int:
    """Bring the tables of an older sqb to this one's version."""
    call = called(**common)
    before = call.store.schema_version()
    if before is None:
        message = f"{call.store.name} has not been set up for virtual environments"
        raise StateNotReady(message, hint="run `sqb state init` once")
    migrated = call.store.prepare()
    after = call.store.schema_version()
    says = f"is at version {after} now, from {before}" if migrated else f"is at version {after} already"
    return call.tell([f"{call.store.name} {says}"], migrated=migrated, before=before, version=after)


def run_pair(yes: bool, **common: Any) -> int:
    """Let the lake and the state belong together, whatever either says."""
    call = called(**common)
    lake = open_lake(call.workspace)
    found = look_at_pair(call.store, lake)
    if found.match is Match.FOREIGN:
        confirm(f"{found.why}. Let this lake and this state belong together?", yes)
        pair_anew(call.store, lake)
        says = "belong together from now on; views that another state made stay until a build replaces them"
    else:
        pair(call.store, lake)
        says = "belong together already" if found.match is Match.PAIRED else "belong together from now on"
    about = {"state": found.to_data(), "paired": found.match is not Match.PAIRED}
    return call.tell([f"this lake and {call.store.name} {says}"], **about)


def _warn_of_foreign(call: Called) -> Pairing:
    """Say on standard error where the lake's environments are kept in another state; looking goes on all the same."""
    found = look_at_pair(call.store, open_lake(call.workspace))
    if found.match is Match.FOREIGN:
        print(Paint(sys.stderr)(f"warning: {found.why}", "yellow"), file=sys.stderr)
    return found


def run_show(virtual_env: str | None, **common: Any) -> int:
    """Print all environments, or one with what it shows."""
    call = called(**common)
    pairing = _warn_of_foreign(call)
    found = overviews(call.store)
    if virtual_env is None:
        state = {"name": call.store.name, "version": call.store.schema_version(), **pairing.to_data()}
        return call.tell(overview_lines(found), state=state, environments=[overview_data(o) for o in found])
    existing(virtual_env, {o.environment.name: o.environment for o in found})
    (overview,) = (o for o in found if o.environment.name == virtual_env)
    refs = call.store.refs(virtual_env)
    unsuffixed = call.workspace.virtual.unsuffixed
    missing = sorted(misplaced_views(open_lake(call.workspace), virtual_env, refs, unsuffixed))
    nodes = [{**binding_data(ref.binding), "base": ref.base or None} for ref in refs.values()]
    about = {**overview_data(overview), "views_missing": missing}
    return call.tell(environment_lines(overview, refs, missing), environment=about, nodes=nodes)


def run_detach(name: str, take_over: bool, **common: Any) -> int:
    """Refuse builds, promotions and rollbacks of an environment from now on."""
    call = called(**common)
    before, after = _set(call, name, take_over, "detach")
    says = f"{name} was detached already" if before == after else f"{name} is detached; it was {after.was}"
    return call.tell([says], environment=name, status=str(after.status), was=after.was)


def run_reattach(name: str, take_over: bool, **common: Any) -> int:
    """Allow builds, promotions and rollbacks of an environment again."""
    call = called(**common)
    before, after = _set(call, name, take_over, "reattach")
    says = f"{name} was not detached; it" if before == after else f"{name} is attached again; it"
    return call.tell([f"{says} is {after.status}"], environment=name, status=str(after.status), was=after.was)


def run_remove(name: str, take_over: bool, yes: bool, force: bool, **common: Any) -> int:
    """Take an environment away, with its views and checkpoints."""
    call = called(**common)
    lake, known = open_lake(call.workspace), call.store.environments()
    if name not in known and (left := views_by_environment(lake, call.store.scope).get(name)):
        return _remove_left(call, lake, name, left, yes)
    existing(name, known)
    refuse_baseline(name, known, force)
    if others := began_as(name, known):
        confirm(
            f"{name} is the baseline of {', '.join(others)}, which forget where they agreed with it. Remove it?", yes
        )
    elif name in (baseline_of(call.workspace), call.workspace.virtual.unsuffixed):
        confirm(
            f"{name} is the baseline that new environments begin as. Remove it with its views and checkpoints?", yes
        )
    views = take_away(call.store, lake, name, owner_here(f"sqb state remove {name}"), take_over, force)
    says = f"{name} is gone: {views} {'view' if views == 1 else 'views'} removed"
    return call.tell([f"{says}; `sqb janitor` removes the tables that nothing needs"], environment=name, views=views)


def _remove_left(call: Called, lake: IcebergLake, name: str, views: Mapping[Relation, Pointer], yes: bool) -> int:
    """Take away the views of an environment that the state does not know, such as those of a state that was lost."""
    look_at_pair(call.store, lake).refuse_foreign()
    confirm(f"the state does not know {name}, and the lake has {len(views)} views of it. Remove them?", yes)
    remove_views(lake, views)
    return call.tell([f"{len(views)} views of {name} are gone"], environment=name, views=len(views))


def run_adopt(dry_run: bool, yes: bool, take_over: bool, **common: Any) -> int:
    """Take tables that were built before there were environments into the baseline."""
    from sqb.environments.adopting import adopt_tables

    call = called(**common)
    lake, owner = open_lake(call.workspace), owner_here("sqb state adopt")
    decided = adopt_tables(call.workspace, call.store, lake, owner, dry_run=True)
    taken = [one for one in decided if not one.why_not]
    leaving = [one for one in taken if one.gave_way]
    if taken and not dry_run:
        if leaving:
            confirm(f"{len(leaving)} relations leave their names until the next build makes views there. Go on?", yes)
        decided = adopt_tables(call.workspace, call.store, lake, owner, take_over=take_over)
    says = adoption_lines(decided, baseline_of(call.workspace), dry_run)
    return call.tell(says, environment=baseline_of(call.workspace), nodes=[adoption_data(o) for o in decided])


def _set(call: Called, name: str, take_over: bool, word: str) -> tuple[Environment, Environment]:
    existing(name, call.store.environments())
    owner = owner_here(f"sqb state {word} {name}")
    with locked(call.store, open_lake(call.workspace), name, owner, take_over) as token:
        # Looked at again: until the lock was there, somebody may have changed or removed it.
        before = existing(name, call.store.environments())
        after = detached(before) if word == "detach" else reattached(before)
        if after != before:
            call.store.set_environment(after, token)
        return before, after


def run_checkpoints(words: tuple[str, ...], virtual_env: str | None, **common: Any) -> int:
    """Print checkpoints, one of them with what it holds, or what differs between two."""
    call = called(**common)
    _warn_of_foreign(call)
    match words:
        case () | ("list",):
            return _list(call, virtual_env)
        case ("show", wanted):
            return _show(call, wanted, virtual_env)
        case ("diff", first, second):
            return _diff(call, first, second, virtual_env)
        case _:
            ways = "`sqb state checkpoints [list]`, `… show ID` and `… diff ID ID`"
            raise CallError(
                f'"{" ".join(words)}" is nothing that can be done with checkpoints', hint=f"there are {ways}"
            )


def _list(call: Called, virtual_env: str | None) -> int:
    with call.store.looking():
        known, found = call.store.environments(), call.store.checkpoints(virtual_env)
    if virtual_env is not None:
        existing(virtual_env, known)
    current = {name: one.checkpoint for name, one in known.items()}
    return call.tell(checkpoint_lines(found, current), checkpoints=[checkpoint_data(c, current) for c in found])


def _show(call: Called, wanted: str, virtual_env: str | None) -> int:
    name = virtual_env or default_environment(call.workspace)
    with call.store.looking():
        known = call.store.environments()
        found = find_checkpoint(wanted, name, known, call.store.checkpoints())
        bindings = call.store.bindings(set(found.refs.values()))
    current = {name: one.checkpoint for name, one in known.items()}
    nodes = [binding_data(bindings[found.refs[node]]) for node in sorted(found.refs)]
    lines = one_checkpoint_lines(found, bindings.values())
    return call.tell(lines, checkpoint=checkpoint_data(found, current), nodes=nodes)


def _diff(call: Called, first: str, second: str, virtual_env: str | None) -> int:
    name = virtual_env or default_environment(call.workspace)
    with call.store.looking():
        known, every = call.store.environments(), call.store.checkpoints()
        before, after = (find_checkpoint(wanted, name, known, every) for wanted in (first, second))
        bindings = call.store.bindings({*before.refs.values(), *after.refs.values()})
    changes = list(changes_between(before, after, bindings))
    current = {name: one.checkpoint for name, one in known.items()}
    sides = {"before": checkpoint_data(before, current), "after": checkpoint_data(after, current)}
    return call.tell(change_lines(before, after, changes), **sides, nodes=[change_data(c) for c in changes])
