"""Which nodes of environments a selector means: those of the project by all that is known of them, others by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqb.compile.model import Project
from sqb.environments.model import Ref
from sqb.errors.call import BadSelector, CallError
from sqb.graph import Selectable, select


@dataclass(frozen=True, slots=True)
class _BoundNode:
    """A node that an environment shows and the project in this folder does not have."""

    name: str
    type: str
    after: tuple[str, ...]
    file: str = ""
    tags: tuple[str, ...] = ()


def select_nodes(terms: Sequence[str], project: Project, *refs: Mapping[str, Ref]) -> frozenset[str] | None:
    """The names among the refs that selectors mean; None where nothing was selected, which means all."""
    if not terms:
        return None
    shown = {name: ref.binding for some in refs for name, ref in some.items()}
    nodes: dict[str, Selectable] = {
        name: _BoundNode(name, bound.type, tuple(bound.upstream))
        for name, bound in shown.items()
        if name not in project.nodes
    }
    chosen = select({**project.nodes, **nodes}, project.externals, tuple(terms)).names & shown.keys()
    if not chosen:
        raise BadSelector(
            f'nothing that "{" ".join(terms)}" means is in these environments',
            hint="`sqb build --virtual-env NAME` puts it there",
        )
    return chosen


def select_node(term: str, project: Project, *refs: Mapping[str, Ref]) -> str:
    """The one node that a selector means."""
    return require_single(term, sorted(select_nodes((term,), project, *refs) or ()))


def require_single(term: str, chosen: Sequence[str]) -> str:
    """The only node that a selector means; others than one are refused."""
    if len(chosen) != 1:
        few = ", ".join(chosen[:5]) + (" …" if len(chosen) > 5 else "")
        raise CallError(f'a diff is of one node, and "{term}" means {len(chosen)}: {few}', hint="name one of them")
    return chosen[0]
