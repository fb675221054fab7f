"""Versions of Spark: which are known, and the Iceberg runtime of each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pyspark
import pytest
from packaging.requirements import Requirement

from sqb.errors.spark import SparkNotSupported
from sqb.spark.session.jars import ICEBERG, PACKAGES
from sqb.spark.session.versions import NEWEST, RUNTIMES, choose_runtime, read_spark_version, refuse_unknown_spark

ROOT = Path(__file__).parents[4]


def test_the_version_is_that_of_the_package() -> None:
    assert read_spark_version() == pyspark.__version__
    assert ICEBERG == PACKAGES[0] == choose_runtime(pyspark.__version__)


@pytest.mark.parametrize("version", RUNTIMES)
def test_each_spark_has_its_runtime(version: str) -> None:
    assert f"-runtime-{version}_2.13:" in choose_runtime(f"{version}.7")
    refuse_unknown_spark(f"{version}.0.dev1")


@pytest.mark.parametrize("version", ["3.5.9", "4.2.1", "4.10.0", "5.0.0"])
def test_another_one_is_refused_before_java_starts(version: str) -> None:
    with pytest.raises(SparkNotSupported) as caught:
        refuse_unknown_spark(version)
    assert caught.value.message == f"PySpark {version} is installed, and sqb works with Spark {' and '.join(RUNTIMES)}"
    hint = f"install one of them, for instance `pip install 'pyspark=={NEWEST}.*'`"
    why = "Spark 3 has no `FROM table WITH (…)`, with which sqb reads what changed in a table: "
    assert caught.value.hint == (why + hint if version == "3.5.9" else hint)
    assert choose_runtime(version) == RUNTIMES[NEWEST]


def test_a_package_that_says_nothing_is_let_be() -> None:
    refuse_unknown_spark(None)


def test_what_is_installed_by_default_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = next(Requirement(text) for text in project["dependencies"] if re.match(r"pyspark\b", text))
    assert declared.specifier.contains(f"{NEWEST}.0")
    assert not any(declared.specifier.contains(version) for version in ("3.5.9", "4.2.0"))
