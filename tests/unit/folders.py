"""Project folders for tests: a mapping of paths to texts, written down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TOML = 'name = "shop"\n'


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write the files into the folder, with a minimal project file where none is given."""
    for name, text in {"sqlbuild_project.toml": TOML, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return root
