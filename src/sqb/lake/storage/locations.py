"""Locations of files as one spelling: Spark and pyiceberg write the same one differently, and folders may be links."""

from __future__ import annotations

import os
from functools import lru_cache

# Hadoop's names for the same store.
_SAME_STORE = {"s3a": "s3", "s3n": "s3"}


def get_local_path(location: str) -> str:
    """The file-system path in a location such as `file:///a/b` or `/a/b`."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    return location


def is_remote(location: str) -> bool:
    """Whether a location is an address in an object store."""
    return "://" in location and not location.startswith("file:")


def normalize_location(location: str) -> str:
    """The one spelling of a file's location."""
    if is_remote(location):
        return _normalize_remote(location)
    folder, _, name = get_local_path(location).rpartition("/")
    return f"{_resolve_folder(folder)}/{name}"


def normalize_folder(location: str) -> str:
    """The same for a folder, without a slash at the end."""
    if is_remote(location):
        return _normalize_remote(location).rstrip("/")
    return _resolve_folder(get_local_path(location).rstrip("/"))


def get_parent(location: str) -> str:
    """The folder that a location is in."""
    return location.rpartition("/")[0]


def _normalize_remote(location: str) -> str:
    scheme, _, rest = location.partition("://")
    return f"{_SAME_STORE.get(scheme, scheme)}://{rest}"


@lru_cache(maxsize=65536)
def _resolve_folder(folder: str) -> str:
    return os.path.realpath(folder)
