"""Makes .venv-dbt, in which the tests of `sqb dbt` run dbt; does nothing when it is there already.

dbt needs other versions of some packages than sqb's development tools do, so it has an environment of its own, as
users of sqb may have it. Spark is large, and is shared with the environment that this runs in. Where dbt cannot be
installed, for instance without a network, the tests that need it are skipped, unless SQB_DBT_REQUIRED is set.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-dbt"
LOCK = ROOT / "requirements-dbt.lock"
SHARED = ("pyspark", "py4j")


def wanted() -> str:
    """What the environment is made of; another one is made anew."""
    parts = [LOCK.read_bytes(), Path(__file__).read_bytes(), sys.version.encode(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join([*parts, *(str(_package(name)).encode() for name in SHARED)])).hexdigest()


def _package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None, f"{name} is not installed"
    return Path(spec.origin).parent


def make() -> None:
    """Make the environment from the lock, every package checked against its hash."""
    stamp = FOLDER / ".installed"
    if stamp.is_file() and stamp.read_text() == wanted():
        return
    print("Making .venv-dbt, for the tests that run dbt")
    venv.create(FOLDER, clear=True, with_pip=True)
    python = FOLDER / "bin" / "python"
    pip = [str(python), "-m", "pip", "--no-input", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(LOCK)], check=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    for name in SHARED:
        (packages / name).symlink_to(_package(name))
    stamp.write_text(wanted())


if __name__ == "__main__":
    try:
        make()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"dbt could not be installed, so the tests that run it are skipped: {error}", file=sys.stderr)
        sys.exit(1 if os.environ.get("SQB_DBT_REQUIRED") else 0)
