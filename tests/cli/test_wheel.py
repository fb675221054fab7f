"""The wheel, as `make dist` builds it: what is in it, and that it works where nothing is but what it asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import sqb
from support.clean_env import make_clean_env
from support.required import missing

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-dist" / "bin" / "python"
# What the sdist is made from.
FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "MANIFEST.in")
# What a package holds besides modules.
DATA = ("example", "examples", "schemas", "docs_site/assets", "errors/pages")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that was built from it."""
    if not PYTHON.exists():
        missing("build is not installed: scripts/dist_env.py makes .venv-dist")
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("src/sqb", "docs/errors"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    command = [str(PYTHON), "-m", "build", "--no-isolation", "--outdir", str(dist), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return dist


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (file,) = dist.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clean_env(tmp_path_factory.mktemp("clean") / "env", wheel)


def _environment() -> dict[str, str]:
    """The variables of the test run, without those that lead to the repository."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "SQB_NO_FALLBACK")}


def run(commands: Path, *arguments: str, cwd: Path, code: int = 0) -> str:
    """What a command of the clean environment prints."""
    env = {**_environment(), "NO_COLOR": "1", "PATH": f"{commands}:{os.environ['PATH']}"}
    done = subprocess.run(arguments, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_names_and_versions(dist: Path) -> None:
    assert sorted(path.name for path in dist.iterdir()) == [
        f"sqb_spark-{sqb.__version__}-py3-none-any.whl",
        f"sqb_spark-{sqb.__version__}.tar.gz",
    ]


def test_all_files_are_in_the_wheel(wheel: Path) -> None:
    package = ROOT / "src" / "sqb"
    files = [path for path in package.rglob("*.py") if not {"example", "examples"} & set(path.parts)]
    files += [path for name in DATA for path in (package / name).rglob("*") if path.is_file()]
    files += [*(package / "lsp").glob("*.json"), package / "py.typed"]
    expected = {path.relative_to(package.parent).as_posix() for path in files if "__pycache__" not in path.parts}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert expected - names == set()
    # And nothing that is not of the package.
    assert {name for name in names if not name.startswith(("sqb/", "sqb_spark-"))} == set()
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []


def test_metadata(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    prefix = f"sqb_spark-{sqb.__version__}.dist-info"
    fields = Parser().parsestr(archive.read(f"{prefix}/METADATA").decode())
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Description-Content-Type"] == "text/markdown" and "sqb" in fields.get_payload()
    assert "Typing :: Typed" in fields.get_all("Classifier", [])
    licenses = {name.rsplit("/", 1)[-1] for name in archive.namelist() if name.startswith(f"{prefix}/licenses/")}
    assert licenses == {"LICENSE", "dagre.LICENSE.txt"}


def test_the_sdist_has_no_links(dist: Path) -> None:
    """The pages about errors are a link in the repository, and files for those who unpack it elsewhere."""
    (file,) = dist.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        members = archive.getmembers()
    assert [member.name for member in members if member.issym() or member.islnk()] == []
    names = {member.name.partition("/")[2] for member in members}
    assert {"CHANGELOG.md", "SECURITY.md", "LICENSE", "src/sqb/errors/pages/SQB-R002.md"} <= names


def test_commands_without_spark(commands: Path, tmp_path: Path) -> None:
    where = run(commands, "python", "-c", "import sqb; print(sqb.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(commands.parent)
    assert run(commands, "sqb", "--version", cwd=tmp_path) == f"sqb {sqb.__version__}\n"
    assert run(commands, "sqb", "explain", "SQB-R002", cwd=tmp_path).startswith("SQB-R002: ")
    for shell in ("bash", "zsh", "fish"):
        assert "_SQB_COMPLETE" in run(commands, "sqb", "completion", shell, cwd=tmp_path)
    run(commands, "sqb", "init", "--empty", "bare", cwd=tmp_path)
    (tmp_path / "bare" / "models" / "one.sql").write_text("SELECT id FROM nothing_is_called_so\n")
    failed = run(commands, "sqb", "validate", cwd=tmp_path / "bare", code=2)
    assert "error[SQB-R002]: models/one.sql:1:16" in failed
    # What only an extra brings is asked for by its name.
    assert "sqb-spark[lsp]" in run(commands, "sqb", "lsp", cwd=tmp_path, code=2)


def test_a_project_from_beginning_to_end(commands: Path, tmp_path: Path) -> None:
    """Everything of the example, on an engine, in a folder that knows nothing of the repository."""
    shop = tmp_path / "shop"
    run(commands, "sqb", "init", "shop", cwd=tmp_path)
    run(commands, "sqb", "validate", cwd=shop)
    try:
        run(commands, "sqb", "engine", "start", cwd=shop)
        assert "0 failed" in run(commands, "sqb", "build", cwd=shop)
        assert "running" in run(commands, "sqb", "engine", "status", cwd=shop)
    finally:
        run(commands, "sqb", "engine", "stop", cwd=shop)
    assert "Nothing to do" in run(commands, "sqb", "build", cwd=shop)
    run(commands, "sqb", "docs", "build", "--output", "pages", cwd=shop)
    pages = shop / "pages"
    assert (pages / "index.html").is_file()
    assert {path.name for path in pages.rglob("*.js")} >= {"graph.js", "canvas.js", "dagre.min.js"}
