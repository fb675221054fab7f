"""The storage port: the files of a warehouse, in a local folder or in an object store.

It knows files by their locations and nothing of what is in them. Files never change once they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from sqb.errors.lake import LakeError
from sqb.lake.janitor.retention import FileFact
from sqb.lake.port import Run, RunHandle


class RunTracker(Protocol):
    """Which runs are alive, by whatever ends when they end."""

    def hold(self, run_id: str, owner: str) -> AbstractContextManager[RunHandle]:
        """Hold a run as alive; the trace of a run that is not finished properly stays."""

    def list_runs(self) -> dict[str, Run]:
        """Every run that is alive, or that left a trace."""

    def settle(self, run_id: str) -> None:
        """Record that the history of a dead run is complete."""

    def forget(self, run_id: str) -> None:
        """Remove the trace of a dead run."""

    def remove_stale(self) -> None:
        """Remove what runs left that were killed before they had a name."""

    def hold_exclusively(self, what: str) -> AbstractContextManager[bool]:
        """Hold a lock that one process can have at a time; False when another has it."""


class Storage(Protocol):
    """The files of one warehouse. Locations may be spelled as Spark or as pyiceberg spells them."""

    root: str
    # How many files are best read at once.
    readers: int

    def prepare(self) -> None:
        """Make sure that files can be written; raises an error where they cannot."""

    def is_same_root(self, root: str) -> bool:
        """Whether this is the warehouse that once was at `root`."""

    def read(self, location: str) -> bytes:
        """The content of a file; raises FileNotFoundError, PermissionError or another OSError."""

    def write(self, location: str, content: bytes) -> None:
        """Write a file under a new name."""

    def copy(self, source: str, target: str) -> None:
        """Copy a file within the warehouse."""

    def stat(self, location: str) -> FileFact:
        """What is known of a file; raises FileNotFoundError."""

    def list_companions(self, location: str) -> tuple[str, ...]:
        """Files that are written beside a file, and go with it."""

    def remove(self, location: str) -> None:
        """Remove a file; raises FileNotFoundError where there is none and storages can tell."""

    def remove_folder(self, folder: str) -> None:
        """Remove everything below a folder as far as possible, and folders above that this leaves empty."""

    def remove_if_empty(self, folder: str) -> None:
        """Remove a folder that holds nothing; storages without folders have nothing to do."""

    def remove_empty_folders(self, folder: str) -> None:
        """Remove folders below one that hold nothing, and itself."""

    def list_files(self, folder: str) -> Iterator[FileFact]:
        """Every file below a folder; none where there is no such folder."""

    def list_folders(self) -> Iterable[str]:
        """Every folder of the warehouse, the deepest first; none where there are no folders."""

    def open_run_tracker(self) -> RunTracker:
        """Open the tracker of runs in this storage."""

    def get_io_options(self) -> Mapping[str, str]:
        """What pyiceberg needs to reach the files."""

    def explain(self, error: BaseException) -> LakeError | None:
        """What a failure of the storage means; None where it is about a single file, or about something else."""
