"""Makes .venv-dbt, in which the tests of `sqb dbt` run dbt; does nothing when it is there already.

dbt needs other versions of some packages than sqb's development tools do, so it has an environment of its own, as
users of sqb may have it. Spark is large, and is shared with the environment that this runs in.
"""

from __future__ import annotations

from pathlib import Path

from own_env import ROOT, make_env, package, run

SHARED = ("pyspark", "py4j")


def make() -> None:
    """Make the environment from the lock."""
    lock = (ROOT / "requirements-dbt.lock").read_text()
    make_env(ROOT / ".venv-dbt", "dbt", lock, _share, tuple(str(package(name)) for name in SHARED))


def _share(packages: Path) -> None:
    for name in SHARED:
        (packages / name).symlink_to(package(name))


if __name__ == "__main__":
    run(make, "dbt")
