"""Which nodes of environments a selector means: those of the project by all that is known of them, others by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqb.compile.model import Project
from sqb.environments.model import Ref
from sqb.errors.call import BadSelector, CallError
from sqb.selection.expression import Expression
from sqb.selection.methods import Selectable
from sqb.selection.select import Surroundings, select


@dataclass(frozen=True, slots=True)
class _BoundNode:
    """A node that an environment shows and the project in this folder does not have."""

    name: str
    type: str
    after: tuple[str, ...]
    kind: str = ""
    file: str = ""
    tags: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def select_nodes(
    terms: Sequence[str],
    project: Project,
    *refs: Mapping[str, Ref],
    around: Surroundings | None = None,
    exclude: Sequence[str] = (),
    named: Expression | None = None,
) -> frozenset[str] | None:
    """The names among the refs that selectors mean; None where nothing was selected, which means all."""
    if not terms and not exclude and named is None:
        return None
    shown = {name: ref.binding for some in refs for name, ref in some.items()}
    nodes: dict[str, Selectable] = {
        name: _BoundNode(name, bound.type, tuple(bound.upstream), bound.kind)
        for name, bound in shown.items()
        if name not in project.nodes
    }
    around = around or Surroundings(tuple(project.externals), project.map_exposures())
    chosen = select({**project.nodes, **nodes}, around, tuple(terms), tuple(exclude), named).names & shown.keys()
    if not chosen:
        words = f'"{" ".join(terms)}" means' if terms else "was selected"
        raise BadSelector(
            f"nothing that {words} is in these environments",
            hint="`sqb build --virtual-env NAME` puts it there",
        )
    return chosen


def select_node(term: str, project: Project, *refs: Mapping[str, Ref]) -> str:
    """The one node that a selector means."""
    return require_single(term, sorted(select_nodes((term,), project, *refs) or ()))


def require_single(term: str, chosen: Sequence[str]) -> str:
    """The only node that a selector means; others than one are refused."""
    if not chosen:
        raise BadSelector(f'nothing is called "{term}"', hint="`sqb ls` lists what the project has")
    if len(chosen) != 1:
        few = ", ".join(chosen[:5]) + (" …" if len(chosen) > 5 else "")
        raise CallError(f'a diff is of one node, and "{term}" means {len(chosen)}: {few}', hint="name one of them")
    return chosen[0]
