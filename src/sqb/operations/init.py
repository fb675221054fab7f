"""Makes a new project: the example, copied to where the user wants it, or one without models."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from sqb.errors.call import InitRefused
from sqb.project.files import PROJECT_FILE


@dataclass(frozen=True, slots=True)
class CreatedProject:
    """A new project, and its files."""

    folder: Path
    files: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """What `sqb init --json` prints."""
        return {"folder": str(self.folder), "files": list(self.files)}


_SETTINGS = """\
name = "{name}"

default_target = "dev"

# A target is a place to build to. {{folder}} is the model's folder: models/staging/orders.sql becomes staging.orders.
[targets.dev]
schema = "{{folder}}"

# Without a [connections.…] section everything is on this machine: Spark runs here, and the tables are in lake/.
"""


def create_project(folder: Path, empty: bool = False) -> CreatedProject:
    """Copy the example into an empty or new folder, or only what every project has."""
    present = sorted(p.name for p in folder.iterdir() if p.name != ".git") if folder.is_dir() else []
    if folder.exists() and not folder.is_dir():
        raise InitRefused(f"{folder} is a file", hint="name a folder that is new or empty")
    if present:
        what = "is a project already" if PROJECT_FILE in present else f"is not empty: it has {', '.join(present[:3])}"
        raise InitRefused(f"{folder} {what}", hint="name a folder that is new or empty, for instance `sqb init shop`")
    try:
        return CreatedProject(folder, tuple(_write_empty(folder) if empty else _copy_example(folder)))
    except OSError as error:
        raise InitRefused(f"cannot write to {folder}: {error.strerror}", hint="name a folder of your own") from error


def _write_empty(folder: Path) -> list[str]:
    ignored = (resources.files("sqb") / "example" / "gitignore.txt").read_text(encoding="utf-8")
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", folder.resolve().name).strip("_") or "project"
    # Git keeps no empty folders.
    files = {
        PROJECT_FILE: _SETTINGS.format(name=name),
        ".gitignore": ignored,
        "models/.gitkeep": "",
        "seeds/.gitkeep": "",
    }
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return list(files)


def _copy_example(folder: Path) -> list[str]:
    files = []
    with resources.as_file(resources.files("sqb") / "example") as example:
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
