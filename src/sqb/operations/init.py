"""Makes a new project: an example, one without models, or one from a dbt project."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.errors.call import InitRefused
from sqb.project.files import PROJECT_FILE

if TYPE_CHECKING:
    from sqb.dbt.convert.report import Remark


@dataclass(frozen=True, slots=True)
class CreatedProject:
    """A new project, and its files."""

    folder: Path
    files: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """What `sqb init --json` prints."""
        return {"folder": str(self.folder), "files": list(self.files)}


@dataclass(frozen=True, slots=True)
class ConvertedProject:
    """A new project that was a dbt project, and what was not, or not quite, converted."""

    folder: Path
    files: tuple[str, ...]
    remarks: tuple[Remark, ...]
    models: int

    def to_data(self) -> dict[str, Any]:
        """What `sqb init --from-dbt --json` prints."""
        remarks = [remark.to_data() for remark in self.remarks]
        return {"folder": str(self.folder), "files": list(self.files), "models": self.models, "remarks": remarks}


# The examples, and the folder of the package that each is in.
EXAMPLES = {"shop": "example", "star": "examples/star"}
DEFAULT_EXAMPLE = "shop"
_SETTINGS = """\
name = "{name}"

default_target = "dev"

# A target is a place to build to. {{folder}} is the model's folder: models/staging/orders.sql becomes staging.orders.
[targets.dev]
schema = "{{folder}}"

# Without a [connections.…] section everything is on this machine: Spark runs here, and the tables are in lake/.
"""


def create_project(folder: Path, empty: bool = False, example: str = DEFAULT_EXAMPLE) -> CreatedProject:
    """Copy an example into an empty or new folder, or only what every project has."""
    _check_empty(folder)
    try:
        return CreatedProject(folder, tuple(_write_empty(folder) if empty else _copy_example(folder, example)))
    except OSError as error:
        raise InitRefused(f"cannot write to {folder}: {error.strerror}", hint="name a folder of your own") from error


def convert_dbt_project(folder: Path, source: Path) -> ConvertedProject:
    """Write a dbt project as a project of sqb's into an empty or new folder; the dbt project is only read."""
    from sqb.dbt.convert.convert import convert_project  # only those who convert need it

    _check_empty(folder)
    if not source.is_dir():
        raise InitRefused(f"{source} is not a folder", hint="name the folder that has dbt_project.yml")
    conversion = convert_project(source)
    files = {**conversion.files, ".gitignore": _read_ignored()}
    try:
        _write_files(folder, files)
    except OSError as error:
        raise InitRefused(f"cannot write to {folder}: {error.strerror}", hint="name a folder of your own") from error
    return ConvertedProject(folder, tuple(files), conversion.remarks, conversion.models)


def _check_empty(folder: Path) -> None:
    present = sorted(p.name for p in folder.iterdir() if p.name != ".git") if folder.is_dir() else []
    if folder.exists() and not folder.is_dir():
        raise InitRefused(f"{folder} is a file", hint="name a folder that is new or empty")
    if present:
        what = "is a project already" if PROJECT_FILE in present else f"is not empty: it has {', '.join(present[:3])}"
        raise InitRefused(f"{folder} {what}", hint="name a folder that is new or empty, for instance `sqb init shop`")


def _read_ignored() -> str:
    return (resources.files("sqb") / "example" / "gitignore.txt").read_text(encoding="utf-8")


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _write_empty(folder: Path) -> list[str]:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", folder.resolve().name).strip("_") or "project"
    # Git keeps no empty folders.
    files = {
        PROJECT_FILE: _SETTINGS.format(name=name),
        ".gitignore": _read_ignored(),
        "models/.gitkeep": "",
        "seeds/.gitkeep": "",
    }
    _write_files(folder, files)
    return list(files)


def _copy_example(folder: Path, name: str) -> list[str]:
    files = []
    with resources.as_file(resources.files("sqb").joinpath(*EXAMPLES[name].split("/"))) as example:
        for source in sorted(example.rglob("*")):
            if source.is_dir() or "__pycache__" in source.parts:
                continue
            relative = source.relative_to(example)
            name = ".gitignore" if relative.name == "gitignore.txt" else relative.name
            target = folder / relative.parent / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            files.append(str(relative.parent / name))
    return files
