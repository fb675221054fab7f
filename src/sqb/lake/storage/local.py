"""A warehouse in a local folder."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqb.errors.lake import LakeError, LakeFull, LakeUnreadable
from sqb.lake.janitor.retention import FileFact
from sqb.lake.liveness.file import FileRunTracker
from sqb.lake.port import STAGE_SCHEMA
from sqb.lake.storage.locations import get_local_path

OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)


class LocalStorage:
    """The files below one folder."""

    readers = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = str(folder)

    def prepare(self) -> None:
        """Make the folder, which must be one that can be written to."""
        prepare_folder(self.folder)

    def is_same_root(self, root: str) -> bool:
        return os.path.realpath(root) == os.path.realpath(self.folder)

    def read(self, location: str) -> bytes:
        with open(get_local_path(location), "rb") as file:
            return file.read()

    def write(self, location: str, content: bytes) -> None:
        path = get_local_path(location)
        try:
            _write_file(path, content)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _write_file(path, content)

    def copy(self, source: str, target: str) -> None:
        path = get_local_path(target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copyfile(get_local_path(source), path)

    def stat(self, location: str) -> FileFact:
        status = os.stat(get_local_path(location))
        return FileFact(location, status.st_size, status.st_mtime)

    def list_companions(self, location: str) -> tuple[str, ...]:
        return (get_sidecar(location),)

    def remove(self, location: str) -> None:
        os.unlink(get_local_path(location))

    def remove_folder(self, folder: str) -> None:
        path = get_local_path(folder)
        shutil.rmtree(path, ignore_errors=True)
        for parent in Path(path).parents:
            # Schemas' folders stay: other threads are about to write below them.
            if self.folder not in parent.parents or parent.parent == self.folder:
                return
            try:
                parent.rmdir()
            except OSError:
                return

    def remove_if_empty(self, folder: str) -> None:
        with suppress(OSError):
            os.rmdir(get_local_path(folder))

    def remove_empty_folders(self, folder: str) -> None:
        for at, _, _ in os.walk(get_local_path(folder), topdown=False):
            with suppress(OSError):
                os.rmdir(at)

    def list_files(self, folder: str) -> Iterator[FileFact]:
        for at, _, names in os.walk(get_local_path(folder)):
            for name in names:
                with suppress(OSError):
                    yield self.stat(f"{at}/{name}")

    def list_folders(self) -> Iterator[str]:
        for at, _, _ in os.walk(os.path.realpath(self.folder), topdown=False):
            yield at

    def open_run_tracker(self) -> FileRunTracker:
        return FileRunTracker(self.folder / STAGE_SCHEMA / "_runs")

    def get_io_options(self) -> dict[str, str]:
        return {}

    def explain(self, error: BaseException) -> LakeError | None:
        if not isinstance(error, OSError):
            return None
        if error.errno in OUT_OF_SPACE:
            return LakeFull(f"no space left in {self.root}", hint="free some space and build again")
        if isinstance(error, PermissionError):
            return build_unreadable_error(error.filename or self.root, "write to")
        return None


def prepare_folder(folder: Path) -> None:
    """Make a folder, or see that the one that is there can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in OUT_OF_SPACE:
            raise
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise LakeUnreadable(
                f"cannot write to {error.filename or folder}",
                hint="the lake needs a folder there, and something else has its name: move that away, or name another"
                " folder in the connection",
            ) from error
        raise build_unreadable_error(error.filename or folder, "write to") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise build_unreadable_error(folder, "write to")


def build_unreadable_error(path: Path | str, verb: str) -> LakeUnreadable:
    """The error of a file or folder that is not for this user."""
    return LakeUnreadable(
        f"cannot {verb} {path}", hint="check the permissions of the lake's folder, and who made its files"
    )


def get_sidecar(path: str) -> str:
    """The checksum file that Hadoop writes beside a file on a local disk, and that goes with it."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def find_main_file(path: str) -> str | None:
    """The file that a checksum file belongs to; None of any other file."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[1:-4]}" if name.startswith(".") and name.endswith(".crc") else None


def _write_file(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
