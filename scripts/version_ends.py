"""Tests sqb with the lowest and with the highest versions that pyproject.toml allows.

Each end gets an environment of its own, .venv-lowest and .venv-highest, which uv makes and which is removed when the
tests have passed (`--keep` keeps it; both need 2 GB, most of it Spark). Both ends must also give every project of
the tests the same identities: another version of sqlglot must not rebuild what is built.

    python scripts/version_ends.py [lowest] [highest] [--keep]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESOLUTIONS = {"lowest": "lowest-direct", "highest": "highest"}
# All that needs no Spark, every lake that needs no server, and a few builds from the first file to the last commit.
SELECTIONS = (
    ("tests/unit",),
    ("tests/contract", "-k", "memory or sqlite"),
    ("tests/spark/test_python_child.py", "tests/cases", "-k", "python_child or cosmetic_edits or consistent_cut"),
)
# Prints the hashes of all nodes of the projects in the folder that it is given; some are there to be refused.
HASHES = """
import json, sys
from pathlib import Path
from sqb.errors.base import SqbError
from sqb.workspace import open_workspace
hashes = {}
for root in sorted(p.parent for p in Path(sys.argv[1]).rglob("sqlbuild_project.toml")):
    try:
        nodes = open_workspace(root).project.nodes
    except SqbError:
        continue
    hashes |= {f"{root.relative_to(sys.argv[1])}: {name}": node.local_hash for name, node in nodes.items()}
print(json.dumps(hashes))
"""


def main() -> None:
    """Test the ends that are named, or both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ends", nargs="*", metavar="lowest|highest")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    arguments = parser.parse_args()
    ends = arguments.ends or list(RESOLUTIONS)
    if unknown := set(ends) - set(RESOLUTIONS):
        parser.error(f"not an end: {', '.join(sorted(unknown))}")
    expected = compute_hashes(Path(sys.executable))
    failed = [end for end in ends if not try_end(end, expected)]
    if not arguments.keep and not failed:
        for end in ends:
            shutil.rmtree(get_folder(end))
    sys.exit(f"failed at the {' and the '.join(failed)} versions" if failed else 0)


def try_end(end: str, expected: dict[str, str]) -> bool:
    """Make the environment of an end and run the tests in it; whether all is well."""
    begun = time.monotonic()
    python = make_env(end)
    print(f"{end}: {', '.join(list_versions(python))}", flush=True)
    hashes = compute_hashes(python)
    changed = sorted(name for name in expected.keys() | hashes.keys() if expected.get(name) != hashes.get(name))
    for name in changed:
        print(f"{end}: another identity than with requirements.lock: {name}")
    results = [subprocess.run([python, "-m", "pytest", *selection], cwd=ROOT).returncode for selection in SELECTIONS]
    outcome = "failed" if changed or any(results) else "passed"
    print(f"{end}: {outcome}, {len(hashes)} identities, {time.monotonic() - begun:.0f} s", flush=True)
    return outcome == "passed"


def make_env(end: str) -> Path:
    """Install sqb for development, with the versions of an end, and return the Python of the environment."""
    python = get_folder(end) / "bin" / "python"
    with tempfile.TemporaryDirectory() as tools:
        venv.create(tools, with_pip=True)
        subprocess.run([f"{tools}/bin/pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True)
        uv = f"{tools}/bin/uv"
        subprocess.run(
            [uv, "venv", "--quiet", "--clear", "--seed", "--python", sys.executable, get_folder(end)], check=True
        )
        install = [uv, "pip", "install", "--quiet", "--python", python, "--prerelease", "disallow"]
        subprocess.run([*install, "--resolution", RESOLUTIONS[end], "--editable", f"{ROOT}[dev]"], check=True)
    return python


def get_folder(end: str) -> Path:
    """Where the environment of an end is."""
    return ROOT / f".venv-{end}"


def list_versions(python: Path) -> list[str]:
    """The versions of what sqb declares that it needs, as in an environment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["connect"]]
    names = [re.split(r"[\[<>=~!; ]", requirement)[0] for requirement in declared]
    shown = "(f'{name} {version(name)}' for name in sys.argv[1:])"
    code = f"import sys; from importlib.metadata import version; print(*{shown}, sep='\\n')"
    done = subprocess.run([python, "-c", code, *names], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def compute_hashes(python: Path) -> dict[str, str]:
    """The identities that the projects of the tests have in an environment."""
    with tempfile.TemporaryDirectory() as folder:
        for projects in ("cases", "fixtures"):
            shutil.copytree(ROOT / "tests" / projects, Path(folder, projects))
        for project in Path(folder, "cases").glob("*/project"):
            # As the tests do where a case has no settings of its own.
            settings = project / "sqlbuild_project.toml"
            if not settings.exists():
                settings.write_text('name = "shop"\n')
        done = subprocess.run([python, "-c", HASHES, folder], capture_output=True, text=True, check=True)
    hashes: dict[str, str] = json.loads(done.stdout)
    return hashes


if __name__ == "__main__":
    main()
