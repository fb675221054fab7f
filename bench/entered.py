"""Through how many modules of sqb a command goes. `bench/entered.py PROJECT_FOLDER COMMAND…`, such as `plan` or `build`

A module is imported if it was loaded, and entered if a function of it ran that no import called: what a reader
opens who steps through the command. Methods that dataclasses generate are of no file, so they do not count.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1] / "src" / "sqb"


class Profile:
    """Counts calls by file, and leaves out what runs while a module is being imported."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(ROOT)) or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if (code.co_filename, code.co_qualname) not in self.calls and _is_importing(frame):
            return
        self.calls[code.co_filename, code.co_qualname] += 1


def _is_importing(frame: FrameType) -> bool:
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(str(ROOT)):
            return True
        caller = caller.f_back
    return False


def main() -> None:
    project, *command = sys.argv[1:]
    os.chdir(project)
    sys.path.insert(0, str(ROOT.parent))
    from sqb.cli.main import run

    profile = Profile()
    sys.argv = ["sqb", *command]
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        run(command)
    finally:
        sys.setprofile(None)
    imported = [name for name in sys.modules if name == "sqb" or name.startswith("sqb.")]
    entered: dict[str, list[str]] = {}
    for file, name in profile.calls:
        entered.setdefault(str(Path(file).relative_to(ROOT)), []).append(name)
    for file in sorted(entered):
        print(f"{file:45} {len(entered[file]):3}  {', '.join(entered[file][:6])}", file=sys.stderr)
    print(f"imported {len(imported)} modules, entered {len(entered)}: {' '.join(command)}", file=sys.stderr)


if __name__ == "__main__":
    main()
