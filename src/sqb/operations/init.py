"""Makes a new project: the example, copied to where the user wants it."""

from __future__ import annotations

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


def create_project(folder: Path) -> CreatedProject:
    """Copy the example into an empty or new folder."""
    present = sorted(p.name for p in folder.iterdir() if p.name != ".git") if folder.is_dir() else []
    if folder.exists() and not folder.is_dir():
        raise InitRefused(f"{folder} is a file", hint="name a folder that is new or empty")
    if present:
        what = "is a project already" if PROJECT_FILE in present else f"is not empty: it has {', '.join(present[:3])}"
        raise InitRefused(f"{folder} {what}", hint="name a folder that is new or empty, for instance `sqb init shop`")
    try:
        return CreatedProject(folder, tuple(_copy_example(folder)))
    except OSError as error:
        raise InitRefused(f"cannot write to {folder}: {error.strerror}", hint="name a folder of your own") from error


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
