"""Makes .venv-dagster, in which the example of docs/orchestration.md runs; does nothing when it is there already.

It is what `pip install sqb-spark dagster` gives: both locks have the same versions of what both need. So only what sqb
does not need is installed, and everything else is taken from the environment that this runs in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from own_env import ROOT, make_env, own_packages, run

_NAME = re.compile(r"^([A-Za-z0-9_.-]+)==")


def make() -> None:
    """Make the environment from what the lock of Dagster has and that of sqb has not."""
    ours = {name for name, _ in _packages("requirements.lock")}
    lock = "".join(text for name, text in _packages("requirements-dagster.lock") if name not in ours)
    make_env(ROOT / ".venv-dagster", "Dagster", lock, _share, (str(own_packages()),))


def _packages(lock: str) -> Iterator[tuple[str, str]]:
    """The packages of a lock, each with its lines."""
    parts = re.split(r"(?m)^(?=[A-Za-z0-9])", (ROOT / lock).read_text())
    return ((found[1], part) for part in parts if (found := _NAME.match(part)))


def _share(packages: Path) -> None:
    # sqb itself is there by a .pth file, which only `addsitedir` reads.
    (packages / "sqb.pth").write_text(f"import site; site.addsitedir({str(own_packages())!r})\n")


if __name__ == "__main__":
    run(make, "Dagster")
