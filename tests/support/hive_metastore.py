"""A Hive Metastore on loopback for one test process: the one whose jars Spark has, on a Derby database in a folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sqb.spark.session.java import find_java
from support.postgres import end_java_with_parent, free_port

_STARTED_WITHIN = 180.0
_QUICK = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_OPENS = ("java.lang", "java.net", "java.nio", "java.util", "java.util.concurrent")
# The metastore makes its other tables by itself; these are Hive's for locks, as hive-schema-2.3.0.derby.sql has them.
_LOCK_TABLES = """
CREATE TABLE TXNS (TXN_ID bigint PRIMARY KEY, TXN_STATE char(1) NOT NULL, TXN_STARTED bigint NOT NULL,
  TXN_LAST_HEARTBEAT bigint NOT NULL, TXN_USER varchar(128) NOT NULL, TXN_HOST varchar(128) NOT NULL,
  TXN_AGENT_INFO varchar(128), TXN_META_INFO varchar(128), TXN_HEARTBEAT_COUNT integer);
CREATE TABLE TXN_COMPONENTS (TC_TXNID bigint REFERENCES TXNS (TXN_ID), TC_DATABASE varchar(128) NOT NULL,
  TC_TABLE varchar(128), TC_PARTITION varchar(767), TC_OPERATION_TYPE char(1) NOT NULL);
CREATE TABLE HIVE_LOCKS (HL_LOCK_EXT_ID bigint NOT NULL, HL_LOCK_INT_ID bigint NOT NULL, HL_TXNID bigint,
  HL_DB varchar(128) NOT NULL, HL_TABLE varchar(128), HL_PARTITION varchar(767), HL_LOCK_STATE char(1) NOT NULL,
  HL_LOCK_TYPE char(1) NOT NULL, HL_LAST_HEARTBEAT bigint NOT NULL, HL_ACQUIRED_AT bigint,
  HL_USER varchar(128) NOT NULL, HL_HOST varchar(128) NOT NULL, HL_HEARTBEAT_COUNT integer,
  HL_AGENT_INFO varchar(128), HL_BLOCKEDBY_EXT_ID bigint, HL_BLOCKEDBY_INT_ID bigint,
  PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID));
CREATE TABLE NEXT_LOCK_ID (NL_NEXT bigint NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE NEXT_TXN_ID (NTXN_NEXT bigint NOT NULL);
INSERT INTO NEXT_TXN_ID VALUES (1);
CREATE TABLE AUX_TABLE (MT_KEY1 varchar(128) NOT NULL, MT_KEY2 bigint NOT NULL, MT_COMMENT varchar(255),
  PRIMARY KEY (MT_KEY1, MT_KEY2));
"""


@dataclass
class HiveMetastore:
    """A running metastore."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def log(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*log")))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_hive_metastore() -> HiveMetastore:
    """Start a metastore that holds nothing."""
    folder = Path(tempfile.mkdtemp(prefix="sqb_hive_"))
    database = f"jdbc:derby:{folder}/metastore;create=true"
    _create_lock_tables(folder, database)
    port = free_port()
    settings = {
        "javax.jdo.option.ConnectionURL": database,
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file:{folder}/warehouse",
    }
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS]
    logs = ["-Dhive.async.log.enabled=false", f"-Dhive.log.dir={folder}", "-Dhive.log.file=hive.log"]
    command = [*_java(*logs, *opens), "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    for key, value in settings.items():
        command += ["--hiveconf", f"{key}={value}"]
    with (folder / "output.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder)},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_java_with_parent,
        )  # fmt: skip
    metastore = HiveMetastore(port, folder, process)
    _wait_for(metastore)
    return metastore


def _java(*options: str) -> list[str]:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "pyspark is not installed"
    return [str(find_java().path), *_QUICK, *options, "-cp", f"{Path(spec.origin).parent}/jars/*"]


def _create_lock_tables(folder: Path, database: str) -> None:
    """Make the tables of locks in the schema that the metastore uses, with the tool that comes with Derby."""
    script = folder / "locks.sql"
    script.write_text(f"CONNECT '{database}';\nCREATE SCHEMA APP;\nSET SCHEMA APP;\n{_LOCK_TABLES}")
    tool = [*_java(f"-Dderby.stream.error.file={folder}/derby.log"), "org.apache.derby.tools.ij", str(script)]
    subprocess.run(tool, cwd=folder, check=True, capture_output=True, timeout=_STARTED_WITHIN)


def _wait_for(metastore: HiveMetastore) -> None:
    until = time.monotonic() + _STARTED_WITHIN
    while True:
        try:
            socket.create_connection(("127.0.0.1", metastore.port), 1).close()
            return
        except OSError:
            if metastore.process.poll() is not None or time.monotonic() > until:
                log = metastore.log()
                metastore.stop()
                raise RuntimeError(f"the Hive Metastore did not start: {log[-4000:]}") from None
        time.sleep(0.05)
