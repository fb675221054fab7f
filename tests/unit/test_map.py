"""The files that ARCHITECTURE.md and CONTRIBUTING.md name exist, and the picture has every layer."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src/sqb"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    missing = [name for name, places in _iter_named_files(page) if not any((p / name).exists() for p in places)]
    assert missing == []


def _iter_named_files(page: str) -> Iterator[tuple[str, list[Path]]]:
    """Each path in backticks, with the folders that it may be in: some are named before it."""
    folders: list[Path] = []
    for line in (ROOT / page).read_text().splitlines():
        if not line.startswith("  ") or line.startswith("| "):
            folders = []
        for name in re.findall(r"`([\w./-]+)`", line):
            if name.endswith((".py", "/")):
                yield name, [ROOT, SRC, SRC.parent, *folders]
            for parent in (ROOT, SRC, *folders):
                if "/" in name and (parent / name).parent.is_dir():
                    folders.append((parent / name).parent)
                if (parent / name).is_dir():
                    folders.append(parent / name)


def test_the_picture_has_every_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    picture = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    assert [name for layer in layers for name in layer.split(" | ") if not re.search(rf"\b{name}\b", picture)] == []
