"""Metadata documents read from the storage, and what their damage means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqb.errors import LakeError
from sqb.lake.local_storage import unreadable
from sqb.lake.locations import local_path
from sqb.lake.metadata import damaged, parse_metadata, state_of
from sqb.lake.port import Pointer, TableState
from sqb.lake.storage import Storage

Read = TypeVar("Read")
Meaning = Callable[[Mapping[str, Any]], Read]


def read_document(pointer: Pointer, storage: Storage, meaning: Meaning[Read]) -> Read:
    """What the metadata document behind a pointer means."""
    return meaning_of(pointer, lambda: parse_metadata(storage.read(pointer.location)), meaning)


def meaning_of(pointer: Pointer, document: Callable[[], Mapping[str, Any]], meaning: Meaning[Read]) -> Read:
    """What a document means, which may be missing, or none at all."""
    try:
        return meaning(document())
    except PermissionError as error:
        raise unreadable(local_path(pointer.location), "read") from error
    except (OSError, ValueError, TypeError, LookupError, AttributeError, StopIteration, EOFError) as error:
        raise damaged(pointer.relation, local_path(pointer.location)) from error


def read_state(pointer: Pointer, storage: Storage) -> TableState:
    """The state of the table or view behind a pointer."""
    return read_document(pointer, storage, state_of)


def view_behind(pointer: Pointer, storage: Storage) -> Mapping[str, Any] | None:
    """The metadata of a view that can be read; None of anything else."""
    try:
        document = read_document(pointer, storage, dict)
    except LakeError:
        return None
    return document if "view-uuid" in document else None
