"""Fetch the library of the pages again: the very file that is in the repository, or another on purpose.

Each is one file of a published npm package, which `npm pack` fetches from wherever npm is set up to. The sums below say
what it must be; with --update they are printed for versions that were changed here.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "src" / "sqb" / "docs_site" / "assets" / "vendor"


@dataclass(frozen=True, slots=True)
class Library:
    """A file of an npm package, and its licence."""

    package: str
    version: str
    file: str
    target: str
    sha256: str
    license_file: str = "package/LICENSE"


LIBRARIES = (
    Library(
        "@dagrejs/dagre",
        "3.1.3",
        "package/dist/dagre.min.js",
        "dagre.min.js",
        "7f751ea7f1695a56c55845e4415b8ce7d65620b10a15bf1ea806f70af10f97f2",
    ),
)


def main() -> int:
    """Fetch, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="accept other sums, and print them")
    update = parser.parse_args().update
    FOLDER.mkdir(parents=True, exist_ok=True)
    for library in LIBRARIES:
        content, license_text = fetch(library)
        digest = hashlib.sha256(content).hexdigest()
        if digest != library.sha256 and not update:
            print(f"{library.package} {library.version}: {digest} is not {library.sha256}", file=sys.stderr)
            return 1
        (FOLDER / library.target).write_bytes(content)
        (FOLDER / f"{library.target.partition('.')[0]}.LICENSE.txt").write_bytes(license_text)
        print(f"{library.package} {library.version} {digest}")
    return 0


def fetch(library: Library) -> tuple[bytes, bytes]:
    """The file and the licence of a package; references to maps of its source, which are not here, are left out."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", f"{library.package}@{library.version}"], cwd=folder, check=True, capture_output=True
        )
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as package:
            content, text = (package.extractfile(name) for name in (library.file, library.license_file))
            assert content is not None and text is not None
            lines = content.read().split(b"\n")
            return b"\n".join(line for line in lines if not line.startswith(b"//# sourceMappingURL")), text.read()


if __name__ == "__main__":
    sys.exit(main())
