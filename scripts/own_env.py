"""Environments of their own for tests that need other packages than sqb's development does: made once, from a lock.

Where one cannot be made, for instance without a network, the tests that need it are skipped, unless SQB_ALL_REQUIRED
is set: then that fails.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_NAME = re.compile(r"^([A-Za-z0-9_.-]+)==")


def package(name: str) -> Path:
    """The folder of a package in the environment that this runs in."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None, f"{name} is not installed"
    return Path(spec.origin).parent


def make_env(folder: Path, what: str, lock: str, share: Callable[[Path], None], parts: tuple[str, ...] = ()) -> None:
    """Make an environment from the text of a lock, every package checked against its hash; `share` gets its packages.

    Does nothing when it is there already: the same lock, Python and `parts`.
    """
    ingredients = [lock, Path(__file__).read_text(), Path(sys.argv[0]).read_text(), sys.version, str(ROOT), *parts]
    wanted = hashlib.sha256("\0".join(ingredients).encode()).hexdigest()
    stamp = folder / ".installed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"Making {folder.name}, for the tests that run {what}")
    venv.create(folder, clear=True)
    python = folder / "bin" / "python"
    requirements = folder / "requirements.txt"
    requirements.write_text(lock)
    # Ours installs into it; what is imported there is compiled then.
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--no-input", "--disable-pip-version-check"]
    install = ["install", "--quiet", "--no-compile", "--require-hashes", "--no-deps", "-r", str(requirements)]
    subprocess.run([*pip, *install], check=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True)
    share(Path(done.stdout.strip()))
    stamp.write_text(wanted)


def make_env_beside(folder: Path, what: str, lock: str) -> None:
    """Make an environment of what a lock has beyond sqb's; everything else is shared with the one that this runs in.

    Both locks have the same versions of what both need, so it is what installing both into one would give.
    """
    ours = {name for name, _ in _list_packages("requirements.lock")}
    beyond = "".join(text for name, text in _list_packages(lock) if name not in ours)
    make_env(folder, what, beyond, _share_all, (str(own_packages()),))


def _list_packages(lock: str) -> Iterator[tuple[str, str]]:
    """The packages of a lock, each with its lines."""
    parts = re.split(r"(?m)^(?=[A-Za-z0-9])", (ROOT / lock).read_text())
    return ((match[1], part) for part in parts if (match := _NAME.match(part)))


def _share_all(packages: Path) -> None:
    # sqb itself is there by a .pth file, which only `addsitedir` reads.
    (packages / "sqb.pth").write_text(f"import site; site.addsitedir({str(own_packages())!r})\n")


def own_packages() -> Path:
    """Where the packages of the environment are that this runs in."""
    return Path(sysconfig.get_path("purelib"))


def run(make: Callable[[], None], what: str) -> None:
    """Make an environment, or say what is skipped without it."""
    try:
        make()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{what} could not be installed, so the tests that run it are skipped: {error}", file=sys.stderr)
        sys.exit(1 if os.environ.get("SQB_ALL_REQUIRED") else 0)
