"""Behaviours in a process of its own, on a Spark that is not the one of the test run, of which a process has one only.

    python -m support.run_cases <spark://… or sc://…> <folder to work in> <case> …

Says a line of JSON for each case: its name, the seconds that it took, and what went wrong.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path

from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, SparkSettings
from sqb.spark.engine import open_engine
from support.cases import run_case
from support.sandbox import Sandbox

_TESTS = Path(__file__).parent.parent
_SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.optimizer.replaceExceptWithFilter": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def main() -> None:
    address, folder, *cases = sys.argv[1:]
    work = Path(folder)
    if address.startswith("sc:"):
        from sqb.spark.connect import sessions  # loads what only Spark Connect needs

        # As in a build of many minutes: sessions are touched now and then, those that children gave back among them.
        sessions._SECONDS_BETWEEN_TOUCHES = 2.0
    spark = SparkSettings(remote=address) if address.startswith("sc:") else SparkSettings(master=address, conf=_SMALL)
    began = time.monotonic()
    place = LakeLocation.embedded(work / "catalog.db", work / "data")
    engine = open_engine(Connection("cluster", spark=spark), place, work / "log", _say, 2)
    _tell("", began, "")
    try:
        for case in cases:
            began = time.monotonic()
            error = ""
            try:
                run_case(_folder(case), Sandbox(work / case, engine))
            except BaseException:
                error = traceback.format_exc()
            _tell(case, began, error)
    finally:
        engine.stop()


def _folder(case: str) -> Path:
    """A behaviour that is always checked, or one that only servers are checked with."""
    own = _TESTS / "cluster" / "cases" / case
    return own if own.is_dir() else _TESTS / "cases" / case


def _tell(case: str, began: float, error: str) -> None:
    print(json.dumps({"case": case, "seconds": round(time.monotonic() - began, 1), "error": error}), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
