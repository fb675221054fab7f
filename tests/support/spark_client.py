"""What PySpark needs to use a Spark Connect server, lent to an environment that has PySpark without it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("grpc", "grpc_status", "google.rpc", "numpy", "pandas", "pyarrow", "zstandard")


def lend_spark_client(folder: Path) -> Path:
    """A folder for PYTHONPATH with the packages that are needed beside PySpark, and with nothing else."""
    for name in _PACKAGES:
        spec = find_spec(name)
        assert spec is not None and spec.submodule_search_locations, f"{name} is not installed"
        link = folder / name.replace(".", "/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(next(iter(spec.submodule_search_locations)))
    return folder
