"""Errors of catalogs and storage (`SQB-L…`)."""

from __future__ import annotations

from sqb.errors.base import SqbError


class LakeError(SqbError):
    """The catalog or the storage beneath it refused."""

    code = "SQB-L000"


class NotACatalog(LakeError):
    """The catalog file exists but is not an Iceberg catalog database."""

    code = "SQB-L001"


class LakeUnreadable(LakeError):
    """The lake's folder or files cannot be read or written: permissions, or a folder that is not there."""

    code = "SQB-L002"


class LakeMoved(LakeError):
    """The catalog points to files of another folder: the project was moved or copied."""

    code = "SQB-L003"


class LakeFull(LakeError):
    """No space left where the lake is."""

    code = "SQB-L004"


class LakeDamaged(LakeError):
    """The catalog points to a metadata file that is missing or is not one."""

    code = "SQB-L005"


class CatalogUnreachable(LakeError):
    """The catalog's server does not answer."""

    code = "SQB-L006"


class Conflict(LakeError):
    """The table moved since the build looked at it: another build or a write by hand. Nothing was overwritten."""

    code = "SQB-L007"


class CommitUnknown(LakeError):
    """The catalog did not say whether a commit took place; the next build looks and goes on from what is there."""

    code = "SQB-L008"


class UnsupportedType(LakeError):
    """A column's type cannot be stored in an Iceberg table."""

    code = "SQB-L009"


class NewerState(LakeError):
    """State was written by a newer version of sqb than this one."""

    code = "SQB-L010"


class JanitorBusy(LakeError):
    """Another `sqb janitor` is at work in this lake."""

    code = "SQB-L011"
