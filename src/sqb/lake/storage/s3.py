"""A warehouse in an object store that speaks S3, through pyarrow, with the settings that Iceberg's own S3 client takes.

Object stores have no folders: a folder is what the names of files begin with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqb.errors.connections import StorageUnreachable
from sqb.errors.lake import LakeError
from sqb.lake.janitor.retention import FileFact
from sqb.lake.liveness.object_store import ObjectRunTracker
from sqb.lake.port import STAGE_SCHEMA
from sqb.lake.storage.locations import normalize_folder
from sqb.project.config.connections.lake_location import LakeLocation

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, S3FileSystem

_AWS_ERROR = re.compile(r"AWS Error ([A-Z_]+|\[[^\]]*\])")
_READERS = 16


class ObjectStorage:
    """The files below one address."""

    readers = _READERS

    def __init__(self, place: LakeLocation) -> None:
        self.place = place
        self.root = normalize_folder(place.root)

    @cached_property
    def _file_system(self) -> S3FileSystem:
        with self._translate_errors(self.root):
            return open_s3(self.place.options)

    def prepare(self) -> None:
        """See that there is a bucket: what may be written to is told by the first write."""
        bucket = _get_path(self.root).partition("/")[0]
        with self._translate_errors(self.root):
            bucket_info = self._file_system.get_file_info(bucket)
            if bucket_info.type.name == "NotFound":
                raise self._build_unreachable_error(f"there is no bucket {bucket}")

    def is_same_root(self, root: str) -> bool:
        return normalize_folder(root) == self.root

    def read(self, location: str) -> bytes:
        with self._translate_errors(location), self._file_system.open_input_file(_get_path(location)) as file:
            content: bytes = file.read()
            return content

    def write(self, location: str, content: bytes) -> None:
        with self._translate_errors(location), self._file_system.open_output_stream(_get_path(location)) as file:
            file.write(content)

    def copy(self, source: str, target: str) -> None:
        with self._translate_errors(source):
            self._file_system.copy_file(_get_path(source), _get_path(target))

    def stat(self, location: str) -> FileFact:
        with self._translate_errors(location):
            file_info = self._file_system.get_file_info(_get_path(location))
        if file_info.type.name != "File":
            raise FileNotFoundError(2, "there is no such file", location)
        return _build_fact(file_info)

    def list_companions(self, location: str) -> tuple[str, ...]:
        return ()

    def remove(self, location: str) -> None:
        with self._translate_errors(location):
            self._file_system.delete_file(_get_path(location))

    def remove_folder(self, folder: str) -> None:
        with suppress(OSError, LakeError), self._translate_errors(folder):
            self._file_system.delete_dir(_get_path(folder))

    def remove_if_empty(self, folder: str) -> None:
        return None

    def remove_empty_folders(self, folder: str) -> None:
        # An empty folder in an object store is represented by a file without content.
        with suppress(LakeError):
            if next(iter(self.list_files(folder)), None) is None:
                self.remove_folder(folder)

    def list_files(self, folder: str) -> Iterator[FileFact]:
        from pyarrow.fs import FileSelector  # plans that know all metadata do without it

        with self._translate_errors(folder):
            infos = self._file_system.get_file_info(
                FileSelector(_get_path(folder), allow_not_found=True, recursive=True)
            )
        return (_build_fact(info) for info in infos if info.type.name == "File")

    def list_folders(self) -> tuple[str, ...]:
        return ()

    def open_run_tracker(self) -> ObjectRunTracker:
        return ObjectRunTracker(self, f"{self.root}/{STAGE_SCHEMA}/_runs")

    def get_io_options(self) -> dict[str, str]:
        return {**self.place.options, "py-io-impl": "sqb.lake.storage.s3_file_io.SharedS3FileIO"}

    # --- failures ---------------------------------------------------------------------------------------------------

    def explain(self, error: BaseException) -> LakeError | None:
        """What a failure of the store means; None where it is about a single file, or about something else."""
        if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
            return None
        text = str(error)
        if "AWS Error" not in text and "curlCode" not in text:
            return None
        match = _AWS_ERROR.search(text)
        code = match[1] if match else ""
        return self._build_unreachable_error(_format_error(text, code), code)

    @contextmanager
    def _translate_errors(self, location: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if _is_missing(error):
                raise FileNotFoundError(2, "there is no such file", location) from error
            explained = self.explain(error)
            if explained is not None:
                raise explained from error
            raise

    def _build_unreachable_error(self, why: str, code: str = "") -> StorageUnreachable:
        where = self.place.options.get("s3.endpoint", "")
        at = f" at {where}" if where else ""
        message = f"the warehouse {self.root} of the connection {self.place.connection} cannot be used{at}: {why}"
        return StorageUnreachable(self.place.hide(message), hint=_build_hint(f"{code} {why}"))


def open_s3(options: Mapping[str, str]) -> S3FileSystem:
    """The store that the settings of Iceberg's S3 client name."""
    from pyarrow.fs import S3FileSystem  # plans that know all metadata do without it

    settings: dict[str, Any] = {
        "access_key": options.get("s3.access-key-id"),
        "secret_key": options.get("s3.secret-access-key"),
        "session_token": options.get("s3.session-token"),
        "region": options.get("s3.region") or options.get("client.region"),
        "endpoint_override": options.get("s3.endpoint"),
        "proxy_options": options.get("s3.proxy-uri"),
        "role_arn": options.get("s3.role-arn"),
        "session_name": options.get("s3.role-session-name"),
    }
    for key, name in (("s3.connect-timeout", "connect_timeout"), ("s3.request-timeout", "request_timeout")):
        settings[name] = float(options[key]) if key in options else None
    if "s3.force-virtual-addressing" in options:
        settings["force_virtual_addressing"] = options["s3.force-virtual-addressing"].lower() == "true"
    if options.get("s3.allow-bucket-creation") == "true":
        settings["allow_bucket_creation"] = True
    if options.get("s3.anonymous", "").lower() == "true":
        settings["anonymous"] = True
    # Small files, as most of a catalog's are, take one request and not three.
    return S3FileSystem(allow_delayed_open=True, **{key: value for key, value in settings.items() if value is not None})


def _get_path(location: str) -> str:
    return location.partition("://")[2].rstrip("/")


def _build_fact(info: FileInfo) -> FileFact:
    return FileFact(f"s3://{info.path}", info.size or 0, (info.mtime_ns or 0) / 1e9)


def _is_missing(error: OSError) -> bool:
    text = str(error)
    return isinstance(error, FileNotFoundError) or "AWS Error NO_SUCH_KEY" in text or "[code 404]" in text


def _format_error(text: str, code: str) -> str:
    """What an error of the store says, without the names of calls and headers."""
    message = text.partition(" operation: ")[2] or text
    message = re.sub(r"^curlCode: \d+, |\s*\((Request ID|HTTP status|Service).*", "", message.splitlines()[0])
    message = message.partition("; Details:")[0].strip().rstrip(".")
    return (
        message if message and message != "No response body" else code.replace("_", " ").lower() or "it does not answer"
    )


def _build_hint(why: str) -> str:
    if "bucket" in why.lower() or "NO_SUCH_BUCKET" in why:
        return "create the bucket, or correct `warehouse` of the connection's catalog"
    if any(mark in why for mark in ("ACCESS_DENIED", "INVALID_ACCESS_KEY", "SIGNATURE", "FORBIDDEN", "403", "TOKEN")):
        return (
            "check s3.access-key-id and s3.secret-access-key in `options` of the connection's catalog, or"
            " AWS's own environment variables and files, and what that user may do in the bucket"
        )
    return "check s3.endpoint and s3.region in `options` of the connection's catalog, the network and the server"
