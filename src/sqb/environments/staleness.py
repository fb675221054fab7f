"""What of an environment is stale: bound to other versions than the project has. Decided from values alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqb.compile.model import Node, Project
from sqb.environments.model import Ref, Version
from sqb.environments.state.store import VersionKey
from sqb.environments.versions import compute_settings_token
from sqb.errors.environments import StaleUpstreams
from sqb.graph import find_reachable
from sqb.plan.model import Reason

_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Stale:
    """A node whose bound version is not the one that the project has."""

    name: str
    reason: Reason
    # Its own definition has changed; otherwise only an upstream has.
    root: bool
    bound: str
    expected: str

    def to_data(self) -> dict[str, object]:
        return {
            "name": self.name,
            "reason": str(self.reason),
            "root": self.root,
            "bound": self.bound or None,
            "expected": self.expected,
        }


def find_stale(project: Project, refs: Mapping[str, Ref], versions: Mapping[VersionKey, Version]) -> dict[str, Stale]:
    """The stale nodes, each after what it reads; `project` has the versions that are expected."""
    stale: dict[str, Stale] = {}
    for node in project:
        ref = get_shown(node, refs)
        bound = ref.binding.version_hash if ref is not None else ""
        if bound == node.version_hash and node.name in refs:
            continue
        reason = _derive_reason(node, project, ref, versions)
        root = reason is not Reason.UPSTREAM_CHANGED
        stale[node.name] = Stale(node.name, reason, root, bound, node.version_hash)
    return stale


def get_shown(node: Node, refs: Mapping[str, Ref]) -> Ref | None:
    """What an environment shows of a node, under its own name or, until a build has shown that, under a former one."""
    return next((refs[name] for name in (node.name, *node.former_names) if name in refs), None)


def _derive_reason(node: Node, project: Project, ref: Ref | None, versions: Mapping[VersionKey, Version]) -> Reason:
    if ref is None:
        return Reason.FIRST_RUN
    bound = ref.binding
    known = versions.get((bound.name, bound.version_hash))
    if bound.local_hash == node.local_hash and bound.name != node.name:
        return Reason.CONFIG_CHANGED
    if bound.local_hash == node.local_hash:
        settings = known.settings if known is not None else None
        same = settings in (None, compute_settings_token(node, project))
        return Reason.UPSTREAM_CHANGED if same else Reason.CONFIG_CHANGED
    if known is None:
        return Reason.QUERY_CHANGED
    if known.query_hash == node.query_hash and known.config_hash != node.config_hash:
        return Reason.CONFIG_CHANGED
    if known.query_hash == node.query_hash and dict(known.functions) != dict(node.functions):
        return Reason.FUNCTION_CHANGED
    return Reason.QUERY_CHANGED


def find_removed(project: Project, refs: Mapping[str, Ref]) -> tuple[str, ...]:
    """The nodes that an environment shows and the project does not have any more."""
    functions = {format_function_name(f.name) for f in project.functions if f.used}
    return tuple(sorted(n for n in refs if n not in project.nodes and n not in functions))


def format_function_name(name: str) -> str:
    """The name of a function among the refs of an environment: no model has one like it."""
    return f"{name}()"


def find_stale_upstreams(project: Project, selected: Collection[str], stale: Collection[str]) -> list[str]:
    """The stale nodes above selected ones that are not selected themselves, each after what it reads."""
    upstream = {n.name: n.after for n in project}
    chosen = set(selected)
    above = find_reachable([name for name in chosen if name in project.nodes], upstream)
    return [n.name for n in project if n.name in above and n.name in stale and n.name not in chosen]


def check_stale_upstreams(names: Collection[str]) -> None:
    """Refuse to build on versions that are not those of the project."""
    if names:
        listed = list(names)
        more = f" and {len(listed) - _MAX_SHOWN} more" if len(listed) > _MAX_SHOWN else ""
        raise StaleUpstreams(
            f"selected models have stale required upstreams: {', '.join(listed[:_MAX_SHOWN])}{more}",
            hint="select them too, or let --include-stale-upstreams add them",
        )
