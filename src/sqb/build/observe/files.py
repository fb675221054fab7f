"""Sources that are files: listed once for a build, read as listed, and confirmed before anything is published."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqb.compile.model import Node, Project
from sqb.compile.source_model import DeclaredSource
from sqb.errors.base import Errors
from sqb.errors.sources import FilesMoved, FilesUnreadable, SourceGone
from sqb.lake.storage.file_sources import Listing, list_files
from sqb.plan.observed import RelationState, Version, list_inputs_of_names


def list_all_sources(project: Project, root: Path, errors: Errors) -> dict[str, Listing]:
    """The files of every source that is read from files; one that is gone is reported."""
    listings: dict[str, Listing] = {}
    for name in project.externals:
        source = project.sources.get(name)
        if source is not None and source.path is not None:
            listing = list_source(source, root, errors)
            if listing is not None:
                listings[name] = listing
    return listings


def list_source(source: DeclaredSource, root: Path, errors: Errors) -> Listing | None:
    """The files of one source; None when it is reported as gone."""
    assert source.path is not None
    try:
        listing = list_files(source.name, root, source.path, source.format, source.options)
    except OSError as error:
        errors.add(SourceGone(f'the files of "{source.name}" cannot be listed: {error.strerror}', at=source.at))
        return None
    if listing is None:
        message = f'the files of the source "{source.name}" are not there: {source.path}'
        errors.add(SourceGone(message, at=source.at, hint="paths are relative to the project's folder"))
        return None
    if not listing.files and not any(key.lower() == "schema" for key in source.options):
        message = f'no file of the source "{source.name}" exists ({source.path}), and its columns are not declared'
        hint = "add `schema: id BIGINT, name STRING` to its `options`: then it is an empty table without files"
        errors.add(SourceGone(message, at=source.at, hint=hint))
        return None
    return listing


def build_files_state(listing: Listing) -> RelationState:
    """Files in the words of planning."""
    return RelationState(version=Version(definition=listing.version, columns=listing.shape, files=listing.files))


def list_files_read(names: Iterable[str], project: Project, files: Mapping[str, Listing]) -> list[Listing]:
    """The listings of the files that are read by nodes and sources of these names, directly or through views."""
    return [files[i.name] for i in list_inputs_of_names(names, project) if i.external and i.name in files]


def check_files(node: Node, project: Project, files: Mapping[str, Listing]) -> None:
    """Raise when files that a node reads are not those that were listed."""
    if not files:
        return
    for listing in list_files_read(node.after, project, files):
        moved = listing.find_changed_files()
        if moved:
            more = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
            raise FilesMoved(
                f"files of the source {listing.source} changed while they were read: {', '.join(moved[:3])}{more}",
                hint="build again when no process writes to them; new files under other names do no harm",
            )


class SparkFileViews:
    """The files of one build as relations of Spark's, each named once, when the first node needs it."""

    def __init__(self, files: Mapping[str, Listing]) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._registered: set[str] = set()

    def register(self, session: Any, names: Iterable[str], project: Project) -> None:
        """Name the files that are read by nodes and sources of these names."""
        for listing in list_files_read(names, project, self.files) if self.files else ():
            with self._lock:
                if listing.source not in self._registered:
                    register_listing(session, listing)
                    self._registered.add(listing.source)


def register_listing(session: Any, listing: Listing) -> None:
    """Let Spark know the files of a listing; raises when it cannot read them."""
    from sqb.spark.data.file_views import create_file_view
    from sqb.spark.errors import explain_failure  # Spark is there already

    try:
        create_file_view(session, listing.view, listing.format, listing.options, listing.folder, listing.paths)
    except Exception as error:
        moved = listing.find_changed_files()
        if moved:
            raise FilesMoved(
                f"files of the source {listing.source} changed before they were read: {', '.join(moved[:3])}",
                hint="build again",
            ) from error
        failure = explain_failure(error, "")
        cause = _parse_deepest_cause(str(error)) or failure.message
        message = f"the files of the source {listing.source} cannot be read as {listing.format}: {cause}"
        hint = failure.hint or "check `format` and `options` of the source"
        raise FilesUnreadable(message, hint=hint) from error


def _parse_deepest_cause(text: str) -> str | None:
    """What a task that failed says at the end of its causes: why a file could not be read."""
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ").partition(": ")[2].strip() or None if causes else None
