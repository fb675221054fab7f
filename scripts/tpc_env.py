"""Makes .venv-tpc, which has DuckDB's TPC-H and TPC-DS, and writes their texts there; does nothing when it is there.

The extensions fit one version of DuckDB only, which need not be the one that sqb uses.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from own_env import ROOT, make_env, run

ENV = ROOT / ".venv-tpc"
TEXTS = ENV / "texts.json"
GENERATE = ROOT / "scripts" / "tpc_generate.py"


def make() -> None:
    """Make the environment from the lock."""
    lock = (ROOT / "requirements-tpc.lock").read_text()
    make_env(ENV, "TPC-H and TPC-DS", lock, _write_texts, (GENERATE.read_text(),))


def _write_texts(packages: Path) -> None:
    generate("texts", str(TEXTS))


def generate(*arguments: str) -> None:
    """Run the generator in the environment."""
    subprocess.run([str(ENV / "bin" / "python"), str(GENERATE), *arguments], check=True)


if __name__ == "__main__":
    run(make, "TPC-H and TPC-DS")
