"""Builds on a real standalone cluster, and what is said when there is none."""

from __future__ import annotations

import time
from pathlib import Path

from cluster.conftest import Shop, run_cases
from support.postgres import free_port
from support.spark_servers import SparkServer

CASES = ("every_kind", "failing_model")


def test_behaviours(cluster: SparkServer, tmp_path: Path) -> None:
    assert run_cases(cluster.address, tmp_path, *CASES) == []


def test_no_master_answers(tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    began = time.monotonic()
    code, message = Shop(tmp_path, f'master = "{master}"').sqb("build")
    assert code == 1 and time.monotonic() - began < 30
    assert f"the Spark cluster {master} of the connection big does not answer: connection refused" in message
    assert "error[SQB-N221]" in message and "Traceback" not in message
