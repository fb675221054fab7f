"""The real dbt, in an environment of its own that scripts/dbt_env.py makes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sqb.operations.init import convert_dbt_project
from sqb.spark.session.jars import PACKAGES, find_cached_jars
from support.dbt_shop import Shop
from support.required import missing
from support.spark_servers import HOME, with_archived_classes

HERE = Path(__file__).parent
DBT = HERE.parents[1] / ".venv-dbt" / "bin" / "dbt"

# Stands before dbt, to tell how often it was called. Its Spark is that of sqb, by the same name, as the archive of
# Spark's classes is for one name.
_WRAPPER = """#!/bin/sh
printf '["%s"]\\n' "$1" >> "{log}"
export SPARK_HOME="{spark}"
exec "{dbt}" "$@"
"""


@pytest.fixture
def real_shop(tmp_path: Path) -> Shop:
    """The project in tests/dbt/project, with the real dbt on a lake of its own; `calls` has the verbs alone."""
    if not DBT.is_file():
        missing(".venv-dbt is not there: scripts/dbt_env.py makes it, and needs a network for that")
    root = tmp_path / "shop"
    shutil.copytree(HERE / "project", root)
    return _open_shop(root, 'name = "shop"\n')


@pytest.fixture
def converted_shop(tmp_path: Path) -> Shop:
    """The project in tests/dbt/jaffle, and beside it what `sqb init --from-dbt` makes of it, on one lake."""
    if not DBT.is_file():
        missing(".venv-dbt is not there: scripts/dbt_env.py makes it, and needs a network for that")
    root = tmp_path / "shop"
    convert_dbt_project(root, HERE / "jaffle")
    shutil.copytree(HERE / "jaffle", root / "dbt")
    return _open_shop(root, (root / "sqlbuild_project.toml").read_text())


def _open_shop(root: Path, settings: str) -> Shop:
    shop = Shop(root, java=True)
    wrapper = root.parent / "dbt"
    wrapper.write_text(_WRAPPER.format(log=shop.log, dbt=DBT, spark=HOME))
    wrapper.chmod(0o755)
    profiles = (HERE / "profiles.yml.txt").read_text()
    dbt = f'\n[dbt]\nproject_dir = "dbt"\nprofiles_dir = "profiles"\ncommand = "{wrapper}"\n'
    shop.write(
        {
            "sqlbuild_project.toml": settings + dbt,
            "profiles/profiles.yml": profiles.format(jars=_jars(), lake=root / "lake"),
        }
    )
    return shop


def _jars() -> str:
    """The lines of a profile that give Spark its jars, without looking them up at every start where they are there."""
    jars = find_cached_jars(PACKAGES, {})
    if jars is None:
        return f'spark.jars.packages: "{",".join(PACKAGES)}"'
    options = with_archived_classes("-XX:+UseSerialGC")
    class_path = os.pathsep.join(map(str, jars))
    return f"spark.driver.extraClassPath: {class_path}\n        spark.driver.extraJavaOptions: '{options}'"
