"""Every folder beside this file is a behaviour of sqb on real Spark and Iceberg, told as a story."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import run_case
from support.sandbox import Sandbox

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/steps.yml"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_case(case: Path, sandbox: Sandbox) -> None:
    run_case(case, sandbox)
