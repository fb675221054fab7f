"""An environment with what a wheel asks for and nothing else: as somebody has it who only uses sqb.

Packages are those of the environment that this runs in, linked, so nothing is fetched and Spark is not copied. What
only development needs is not there; pip resolves the wheel's requirements among what is.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import make_licenses


def make_clean_env(folder: Path, wheel: Path) -> Path:
    """Make an environment with the wheel in it; returns its folder of commands."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in make_licenses.list_packages():
        if not package.extra:
            _link_package(package.name, packages)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check"]
    install = ["install", "--quiet", "--no-index", "--no-compile", str(wheel)]
    subprocess.run([*pip, *install], check=True, capture_output=True, text=True)
    subprocess.run([*pip, "check"], check=True, capture_output=True, text=True)
    return folder / "bin"


def _link_package(name: str, packages: Path) -> None:
    distribution = metadata.distribution(name)
    for part in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        target = Path(str(distribution.locate_file(part)))
        # Packages of one namespace have a folder in common.
        if target.exists() and not (packages / part).exists():
            (packages / part).symlink_to(target)
