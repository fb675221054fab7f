"""Completion in a real shell, as people use it: a word begun, and the tab key."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest

from cli.conftest import new_project

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n[targets.dev]\n[targets.nightly]\n',
    "models/marts/fct_orders.sql": "SELECT 1 AS id",
    "models/marts/fct_refunds.sql": "SELECT 1 AS id",
}


@pytest.mark.timeout(300)
def test_the_tab_key_in_bash(tmp_path: Path) -> None:
    folder = new_project(tmp_path / "shop", FILES)
    commands = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "TERM": "xterm", "SQB_ENGINE": "off"}
    child = pexpect.spawn(
        "bash",
        ["--norc", "--noprofile", "-i"],
        cwd=str(folder.root),
        env=env,
        encoding="utf-8",
        timeout=120,
        dimensions=(40, 100),
    )
    try:
        child.sendline("source <(sqb completion bash); echo rea''dy")
        child.expect("ready")
        for typed, completed in (
            ("sqb buil", "sqb build"),
            ("sqb build -s fct_ord", "sqb build -s fct_orders"),
            ("sqb plan --targ", "sqb plan --target"),
            ("sqb plan --target ni", "sqb plan --target nightly"),
            ("sqb plan --target=ni", "sqb plan --target=nightly"),
            ("sqb plan -s state:mod", "sqb plan -s state:modified"),
            ("sqb plan -s +fct_ref", r"sqb plan -s \+fct_refunds"),
            ("sqb plan -s tag:x,fct_ref", "sqb plan -s tag:x,fct_refunds"),
        ):
            child.send(f"{typed}\t")
            # From the beginning of the line on: what has become of it is printed, not run.
            child.send("\x01echo line: \r")
            child.expect(rf"line: {completed} ?\r")
        # Where two names begin so, both are shown.
        child.send("sqb build -s fct_\t\t")
        child.expect("fct_orders")
        child.expect("fct_refunds")
        child.send("\x03")
    finally:
        child.close(force=True)
