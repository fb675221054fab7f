"""Who is concerned by a plan, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.console.style import Paint
from sqb.inspect.concerned import Concerned

_MAX_NAMES = 3


def format_concerned(concerned: Concerned, paint: Paint) -> Iterator[str]:
    """The exposures that read what runs, and whose it is."""
    if not concerned:
        return
    yield "Concerned:"
    for exposure, reads in concerned.exposures:
        owner = f" of {exposure.owner}" if exposure.owner else ""
        yield f"  {paint(exposure.name, 'bold')} ({exposure.type}{owner}) reads {_format_names(reads)}"
    for owner, names in concerned.owners:
        yield f"  {paint(owner, 'bold')} owns {_format_names(names)}"
    for group, names in concerned.groups:
        yield f"  {paint(group, 'bold')} (group) has {_format_names(names)}"


def _format_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"
