"""Metadata documents read from the storage, and what their damage means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqb.errors.lake import LakeError
from sqb.lake.metadata.table_state import build_damaged_error, parse_metadata, parse_state
from sqb.lake.port import Pointer, TableState
from sqb.lake.storage.base import Storage
from sqb.lake.storage.local import build_unreadable_error
from sqb.lake.storage.locations import get_local_path

Result = TypeVar("Result")
Interpreter = Callable[[Mapping[str, Any]], Result]


def read_document(pointer: Pointer, storage: Storage, interpret: Interpreter[Result]) -> Result:
    """Read and interpret the metadata document behind a pointer."""
    return interpret_document(pointer, lambda: parse_metadata(storage.read(pointer.location)), interpret)


def interpret_document(
    pointer: Pointer, document: Callable[[], Mapping[str, Any]], interpret: Interpreter[Result]
) -> Result:
    """Interpret a document; raises `LakeDamaged` or `LakeUnreadable` where that fails."""
    try:
        return interpret(document())
    except PermissionError as error:
        raise build_unreadable_error(get_local_path(pointer.location), "read") from error
    except (OSError, ValueError, TypeError, LookupError, AttributeError, StopIteration, EOFError) as error:
        raise build_damaged_error(pointer.relation, get_local_path(pointer.location)) from error


def read_state(pointer: Pointer, storage: Storage) -> TableState:
    """The state of the table or view behind a pointer."""
    return read_document(pointer, storage, parse_state)


def read_view(pointer: Pointer, storage: Storage) -> Mapping[str, Any] | None:
    """The metadata of a view that can be read; None for anything else."""
    try:
        document = read_document(pointer, storage, dict)
    except LakeError:
        return None
    return document if "view-uuid" in document else None
