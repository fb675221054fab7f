"""Exposures linked to the nodes and sources that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqb.compile.model import Exposure, Project
from sqb.errors.base import Errors
from sqb.errors.project import AmbiguousReference, UnknownReference
from sqb.names import suggest_nearest
from sqb.project.exposures import WrittenDependency, WrittenExposure


def link_exposures(written: Iterable[WrittenExposure], project: Project, errors: Errors) -> dict[str, Exposure]:
    """The exposures of a project by their names; what reads nothing that is known is reported."""
    known = {name.lower(): name for name in (*project.graph, *project.sources, *project.externals)}
    exposures = {}
    for exposure in written:
        reads = {name: d for d in exposure.depends_on if (name := _resolve(d, known, errors)) is not None}
        exposures[exposure.name] = Exposure(
            exposure.name,
            exposure.type,
            exposure.at,
            tuple(reads),
            {name: dependency.columns for name, dependency in reads.items() if dependency.columns},
            exposure.owner,
            exposure.description,
            exposure.url,
        )
    return exposures


def _resolve(dependency: WrittenDependency, known: Mapping[str, str], errors: Errors) -> str | None:
    name = dependency.name.lower()
    if name in known:
        return known[name]
    matches = sorted(full for folded, full in known.items() if folded.rpartition(".")[2] == name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        message = f'"{dependency.name}" could be {", ".join(matches)}'
        errors.add(AmbiguousReference(message, at=dependency.at, hint=f"write the one that is meant: {matches[0]}"))
        return None
    names = (*known.values(), *(full.rpartition(".")[2] for full in known.values()))
    hint = suggest_nearest(dependency.name, names) or "an exposure depends on models, seeds and declared sources"
    errors.add(UnknownReference(f'nothing in the project is called "{dependency.name}"', at=dependency.at, hint=hint))
    return None
