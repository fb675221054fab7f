"""Lakes that an older sqb made, kept in tests/fixtures: packed so that they can be unpacked anywhere.

A lake cannot be moved: metadata, manifests, position deletes and the catalog name their files by absolute paths. So a
lake is made in a folder whose path has a fixed length, and unpacked into one whose path is as long: then the one path
takes the place of the other in whatever file, and no length, offset or size in any of them changes. Files that would
hold a path in compressed form are written again without compression when the lake is packed.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tarfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sqb.project.config.connections.lake_location import LakeLocation
from sqb.spark.engine import Engine
from support import avro
from support.commands import run_here
from support.dbt_shop import FAKE, Shop
from support.engine import EngineOfLake, LakeSessions
from support.sandbox import Sandbox

# Long enough for the folders that tests get, on any system; a folder's name may have 255 bytes.
_LENGTH = 220
_HOME = "home.txt"
FIXTURES = Path(__file__).parent.parent / "fixtures"


def folder_to_make_in(parent: Path) -> Path:
    """A new folder below `parent` whose path is as long as those of all packed lakes."""
    root = str(parent.resolve()) + "/"
    missing = _LENGTH - len(root.encode())
    assert 0 < missing <= 255, f"{parent} is too long, or too short, for a path of {_LENGTH} bytes"
    folder = Path(root + "x" * missing)
    folder.mkdir()
    return folder


# --- packing ----------------------------------------------------------------------------------------------------------


def pack(folder: Path, home: Path, archive: Path) -> None:
    """Everything below a folder as one file, made in `home` and perhaps copied since; paths in it can be replaced."""
    assert len(str(home).encode()) == _LENGTH
    for database in folder.rglob("*.db"):
        _close(database)
    for data in folder.rglob("lake/data"):
        _lay_open(data, str(home))
    (folder / _HOME).write_text(str(home))
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder), recursive=False, filter=_without_owner)


def _close(database: Path) -> None:
    """One file of a catalog and its log; whoever still has it open goes on with the old ones."""
    whole = database.with_suffix(".whole")
    connection = sqlite3.connect(database)
    connection.execute("VACUUM INTO ?", (str(whole),))
    connection.close()
    whole.replace(database)
    for log in database.parent.glob(f"{database.name}-*"):
        log.unlink()


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _lay_open(data: Path, home: str) -> None:
    """Paths in a warehouse become plain bytes; sizes are told as they are then."""
    for path in data.rglob(".*.crc"):
        path.unlink()
    sizes: dict[str, int] = {}
    for path in data.rglob("*.parquet"):
        if _lay_open_parquet(path, home):
            sizes[_tail(str(path))] = path.stat().st_size

    def tell_size(record: dict[str, Any]) -> None:
        file = record.get("data_file", record)
        for named, size in (("file_path", "file_size_in_bytes"), ("manifest_path", "manifest_length")):
            if named in file:
                file[size] = sizes.get(_tail(file[named]), file[size])

    lists = set(data.rglob("snap-*.avro"))
    for path in (*(set(data.rglob("*.avro")) - lists), *lists):
        avro.rewrite(path, tell_size)
        sizes[_tail(str(path))] = path.stat().st_size


def _tail(path: str) -> str:
    """A file by its project and its place in the warehouse."""
    return "/".join(Path(path).parts[Path(path).parts.index("lake") - 1 :])


def _lay_open_parquet(path: Path, home: str) -> bool:
    """Whether a file holds paths: then it is written again, so that they can be replaced."""
    table = pq.read_table(path)
    if home not in str(table.to_pylist()):
        return False
    assert table.column_names[:2] == ["file_path", "pos"], f"rows of {path} hold a path"
    if isinstance(table.schema.field("file_path").type, pa.DictionaryType):
        table = table.cast(pa.schema([pa.field("file_path", pa.string(), metadata=table.schema.field(0).metadata)]))
    metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k != b"ARROW:schema"}
    pq.write_table(
        table.replace_schema_metadata(metadata),
        path,
        compression="NONE",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    assert home.encode() in path.read_bytes()
    return True


# --- unpacking --------------------------------------------------------------------------------------------------------


def unpack(archive: Path, parent: Path) -> Path:
    """A packed lake in a new folder below `parent`, as if it had been made there."""
    folder = folder_to_make_in(parent)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    old, new = (folder / _HOME).read_text(), str(folder)
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".duckdb":
            _replace_in_duckdb(path, old, new)
        elif path.suffix == ".db":
            _replace_in_sqlite(path, old, new)
        elif path.is_file():
            data = path.read_bytes()
            if old.encode() in data:
                times = path.stat()
                path.write_bytes(data.replace(old.encode(), new.encode()))
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return folder


def _replace_in_sqlite(path: Path, old: str, new: str) -> None:
    with sqlite3.connect(path) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for column in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]:
                connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, new))
    connection.close()


def _replace_in_duckdb(path: Path, old: str, new: str) -> None:
    with duckdb.connect(str(path)) as connection:
        columns = connection.execute(
            "SELECT table_schema, table_name, column_name FROM information_schema.columns WHERE data_type = 'VARCHAR'"
        ).fetchall()
        for schema, table, column in columns:
            place = f'"{schema}"."{table}"'
            connection.execute(
                f'UPDATE {place} SET "{column}" = replace("{column}", ?, ?) WHERE contains("{column}", ?)',
                (old, new, old),
            )


# --- projects of an unpacked lake -------------------------------------------------------------------------------------


class OldProject:
    """A project and its lake; commands as somebody types them, on the Spark of the test run."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.folder, self.engine = folder, engine
        self.sandbox = Sandbox(folder, engine)
        self.sql = self.sandbox.sql
        self.rows = self.sandbox.rows

    def sqb(self, *arguments: str) -> str:
        """What a command says that ends well."""
        code, out, err = self.run(*arguments)
        assert code == 0, out + err
        return out

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """How a command ends, and what it says."""

        def start(*, place: LakeLocation, **_: Any) -> EngineOfLake:
            return EngineOfLake(LakeSessions(self.engine, place))

        with mock.patch("sqb.spark.session.local.start_engine", start):
            code, out, err = run_here(arguments, self.folder, {**os.environ, "NO_COLOR": "1"})
        print(f"--- {self.folder.name}: sqb {' '.join(arguments)}\n{out}{err}", flush=True)
        return code, out, err

    def put(self, path: str, text: str) -> None:
        """Write a file, with a time that an archive can keep."""
        file = self.folder / path
        file.write_text(text)
        now = int(time.time())
        os.utime(file, (now, now))


def use_fake_dbt(folder: Path) -> Shop:
    """The project of a dbt project, with the fake dbt as its dbt."""
    settings = (folder / "sqlbuild_project.toml").read_text()
    own = f'command = ["{sys.executable}", "{FAKE}"]'
    (folder / "sqlbuild_project.toml").write_text(settings.replace('command = "dbt"', own))
    return Shop(folder)
