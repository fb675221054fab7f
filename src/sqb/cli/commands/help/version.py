"""`sqb version`: its output."""

from __future__ import annotations

from sqb.cli.output import print_document
from sqb.operations.versions import read_versions


def run_version(as_json: bool) -> int:
    """Print the versions of everything that matters for a report."""
    versions = read_versions()
    if as_json:
        print_document(versions, ensure_ascii=True)
        return 0
    print(f"sqb {versions['sqb']}")
    for name, value in list(versions.items())[1:]:
        print(f"  {name:<10} {value}")
    return 0
