"""An environment taken away: its views, then what the store knows of it. The tables of its versions stay for others."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.build.failpoints import Announce, ignore_step
from sqb.environments.model import Environment
from sqb.environments.state.store import Store
from sqb.environments.view_properties import ENVIRONMENT, SCOPE
from sqb.errors.environments import InUse
from sqb.lake.port import Lake, Pointer, ViewSwap
from sqb.names import Relation


def list_views(lake: Lake, scope: str) -> dict[str, dict[Relation, Pointer]]:
    """The views in the lake that environments of a scope have made, by environment."""
    pointers = lake.list_pointers()
    views: dict[str, dict[Relation, Pointer]] = {}
    for relation, state in lake.read_tables(p for p in pointers.values() if p.is_view).items():
        if state.properties.get(SCOPE) == scope and (name := state.properties.get(ENVIRONMENT)):
            views.setdefault(name, {})[relation] = pointers[relation]
    return views


def remove_views(lake: Lake, views: Mapping[Relation, Pointer]) -> None:
    """Take views away, all at once, and the schemas that this leaves empty."""
    lake.swap_views([ViewSwap(r, None, before=p.location) for r, p in sorted(views.items())])
    lake.drop_empty_schemas({r.schema for r in views})


def remove_environment(store: Store, lake: Lake, name: str, token: str, announce: Announce = ignore_step) -> int:
    """Take an environment away; how many views it had. Needs its lock, and those of the ones that began as it."""
    views = list_views(lake, store.scope).get(name, {})
    # Views first: what is left of them when this ends in between is found by the store's word.
    remove_views(lake, views)
    announce("views moved", name)
    store.remove_environment(name, token)
    return len(views)


def list_dependents(name: str, known: Mapping[str, Environment]) -> list[str]:
    """The environments whose baseline is this one."""
    return sorted(n for n, e in known.items() if e.baseline == name and n != name)


def check_not_baseline(name: str, known: Mapping[str, Environment], force: bool) -> None:
    """Refuse to take the baseline of others away."""
    others = list_dependents(name, known)
    if others and not force:
        raise InUse(
            f"{name} is the baseline of {', '.join(others)}",
            hint="remove them first, or promote them; --force removes it all the same, and they forget where they"
            " agreed with it",
        )
