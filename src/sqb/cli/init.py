"""`sqb init`: the example project, copied to where the user wants it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from importlib import resources
from pathlib import Path

from sqb.errors.call import InitRefused
from sqb.project.files import PROJECT_FILE


def run(folder: Path, as_json: bool, debug: bool) -> int:
    """Copy the example into an empty or new folder."""
    present = sorted(p.name for p in folder.iterdir() if p.name != ".git") if folder.is_dir() else []
    if folder.exists() and not folder.is_dir():
        raise InitRefused(f"{folder} is a file", hint="name a folder that is new or empty")
    if present:
        what = "is a project already" if PROJECT_FILE in present else f"is not empty: it has {', '.join(present[:3])}"
        raise InitRefused(f"{folder} {what}", hint="name a folder that is new or empty, for instance `sqb init shop`")
    try:
        files = _copy_example(folder)
    except OSError as error:
        raise InitRefused(f"cannot write to {folder}: {error.strerror}", hint="name a folder of your own") from error
    if as_json:
        print(json.dumps({"folder": str(folder), "files": files}, indent=2))
        return 0
    here = min(str(folder), os.path.relpath(folder), key=len)
    print(f"Made a project of {len(files)} files in {here}")
    print("Next:")
    if here != ".":
        print(f"  cd {shlex.quote(here)}")
    print("  sqb plan     # what a build would do, and why")
    print("  sqb build    # do it")
    return 0


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
