"""Tests sqb with every Spark that it knows, Python 3.11 to 3.13, and Java 17 and 21, as far as they are here.

Each Spark is tested with the first Python and Java, each Python and each Java with the newest Spark; `--all` tests
every combination. Each has an environment of its own, .venv-compat, which uv makes and which is removed in the end.
What cannot be had on this machine is named and left out. Minutes each, and 1 GB.

    python scripts/compat.py [--all] [--list] [SPARK/PYTHON/JAVA ...]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from sqb.spark.session.versions import NEWEST, RUNTIMES

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-compat"
SPARKS = tuple(RUNTIMES)
PYTHONS = ("3.11", "3.12", "3.13")
JAVAS = ("17", "21")
# What is used of PySpark, and builds from the first file to the last commit: children in Python, checksums, types,
# following changes, histories, and comparing.
TESTS = (
    ("tests/unit/spark",),
    (
        "tests/spark/test_python_child.py",
        "tests/spark/test_diff.py",
        "tests/cases",
        "-k",
        "python_child or test_diff or cosmetic_edits or consistent_cut or scd2_life or exactness_aggregates",
    ),
)
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Combination:
    """The first numbers of three versions."""

    spark: str
    python: str
    java: str

    def __str__(self) -> str:
        return f"{self.spark}/{self.python}/{self.java}"


def main() -> None:
    """Test the combinations that are named, or those that can be had here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SPARK/PYTHON/JAVA")
    parser.add_argument("--all", action="store_true", help="test every combination")
    parser.add_argument("--list", action="store_true", help="only print what would be tested")
    arguments = parser.parse_args()
    pythons = {version: path for version in PYTHONS if (path := find_python(version)) is not None}
    javas = find_javas(list_java_homes())
    for what, wanted, available in (("Python", PYTHONS, pythons), ("Java", JAVAS, javas)):
        if missing := [version for version in wanted if version not in available]:
            print(f"not on this machine, and not tested: {what} {', '.join(missing)}", flush=True)
    known = choose_combinations(SPARKS, tuple(pythons), tuple(v for v in JAVAS if v in javas), arguments.all)
    if arguments.names:
        every = {str(c): c for c in choose_combinations(SPARKS, tuple(pythons), tuple(javas), True)}
        if unknown := [name for name in arguments.names if name not in every]:
            parser.error(f"not to be had here: {', '.join(unknown)}; there are {', '.join(every)}")
        known = [every[name] for name in arguments.names]
    if arguments.list:
        print(*known, sep="\n")
        return
    failed = [str(c) for c in known if not try_combination(c, pythons[c.python], javas[c.java])]
    sys.exit(f"failed with {', '.join(failed)}" if failed else 0)


def choose_combinations(
    sparks: tuple[str, ...], pythons: tuple[str, ...], javas: tuple[str, ...], every: bool
) -> list[Combination]:
    """Each Spark with the first Python and Java, each Python and Java with the newest Spark; or all of them."""
    combinations = [Combination(*versions) for versions in product(sparks, pythons, javas)]
    if every or not combinations:
        return combinations
    first = (pythons[0], javas[0])
    return [
        c
        for c in combinations
        if (c.python, c.java) == first or (c.spark == NEWEST and (c.python == first[0] or c.java == first[1]))
    ]


def find_python(version: str) -> Path | None:
    """A Python of this version that runs: on the path, or one of pyenv's."""
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
    ]
    for candidate in filter(None, candidates):
        code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return Path(candidate)
    return None


def list_java_homes() -> list[Path]:
    """Where Java may be installed on this machine."""
    home = os.environ.get("JAVA_HOME")
    return [*([Path(home)] if home else []), *sorted(Path("/usr/lib/jvm").glob("*"))]


def find_javas(homes: list[Path]) -> dict[str, Path]:
    """The first Java of each version, by its first number."""
    javas: dict[str, Path] = {}
    for home in homes:
        release = home / "release"
        match = _RELEASE.search(release.read_text()) if release.is_file() and (home / "bin" / "java").exists() else None
        if match is not None:
            javas.setdefault(match[1], home)
    return javas


def try_combination(combination: Combination, python: Path, java: Path) -> bool:
    """Make an environment and run the tests in it; whether all is well."""
    begun = time.monotonic()
    try:
        interpreter = make_env(python, combination.spark)
        environment = {**os.environ, "JAVA_HOME": str(java)}
        codes = [
            subprocess.run([interpreter, "-m", "pytest", "-q", *tests], cwd=ROOT, env=environment).returncode
            for tests in TESTS
        ]
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    outcome = "failed" if any(codes) else "passed"
    print(f"{combination}: {outcome}, {time.monotonic() - begun:.0f} s", flush=True)
    return outcome == "passed"


def make_env(python: Path, spark: str) -> Path:
    """Install sqb for development with the versions of the lock, and this Spark in the place of the lock's."""
    interpreter = FOLDER / "bin" / "python"
    with tempfile.TemporaryDirectory() as tools:
        venv.create(tools, with_pip=True)
        subprocess.run([f"{tools}/bin/pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True)
        uv = f"{tools}/bin/uv"
        subprocess.run([uv, "venv", "--quiet", "--clear", "--seed", "--python", python, FOLDER], check=True)
        lock = Path(tools, "requirements.txt")
        lock.write_text(replace_spark((ROOT / "requirements.lock").read_text(), spark))
        install = [uv, "pip", "install", "--quiet", "--python", interpreter]
        subprocess.run([*install, "-r", lock], check=True)
        # sqb asks for the newest Spark, and this may be another one.
        subprocess.run([*install, "--no-deps", "--editable", ROOT], check=True)
    return interpreter


def replace_spark(lock: str, spark: str) -> str:
    """The names and versions of a lock, without hashes, with another Spark."""
    pins = re.findall(r"^([A-Za-z0-9_.-]+(?:\[[^]]*\])?==[^\\\n]+)", lock, re.MULTILINE)
    others = [pin.strip() for pin in pins if not re.match(r"(pyspark|py4j)==", pin)]
    return "\n".join([*others, f"pyspark=={spark}.*", ""])


if __name__ == "__main__":
    main()
