"""Makes .venv-dist, in which `make dist` builds the wheel and the sdist; does nothing when it is there already."""

from __future__ import annotations

from pathlib import Path

from own_env import ROOT, make_env, run


def make() -> None:
    """Make the environment from the lock; it shares nothing with .venv."""
    make_env(ROOT / ".venv-dist", "build", (ROOT / "requirements-dist.lock").read_text(), _share_nothing)


def _share_nothing(packages: Path) -> None:
    pass


if __name__ == "__main__":
    run(make, "build")
