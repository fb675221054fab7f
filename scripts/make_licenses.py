"""Write docs/licenses.md: under which licences the packages are that an installation of sqb brings along.

Packages and licences come from the metadata of the environment that this runs in, and the ranges from pyproject.toml.
`list_packages` is also what `make sbom` takes for an installation.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from vendor_page import FOLDER, LIBRARIES

from sqb.spark.session.jars import AWS
from sqb.spark.session.versions import RUNTIMES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licenses.md"
# Extras whose packages are installed for development too; dagster and the exporter of otel are not.
EXTRAS = ("lsp", "openlineage")
# What packages write where they do not write an identifier of SPDX.
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    # Which of the two is not said.
    "BSD License": "BSD",
    "BSD 3-Clause License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Everyone may use, change and redistribute what is under these. LGPL and MPL ask for the source of changes to the
# package itself, which sqb imports as it is.
ALLOWED = frozenset(
    (
        *("Apache-2.0", "MIT", "MIT-0", "ISC", "PSF-2.0", "Zlib", "Unlicense", "CC0-1.0"),
        *("BSD", "0BSD", "BSD-2-Clause", "BSD-3-Clause"),
        *("LGPL-3.0-only", "MPL-2.0"),
    )
)
_INTRO = """\
# Licences

For those who have to know what sqb brings along. sqb itself is under the [Apache License 2.0](../LICENSE).

`scripts/make_licenses.py` (`make licenses`) makes this page from the metadata of installed packages, and a test
compares the two. Each package is under a licence that lets everyone use, change and redistribute it. `make sbom` writes
versions too, as a CycloneDX document.
"""


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package: its name, its licence as an expression of SPDX, and which extra asks for it."""

    name: str
    license: str
    extra: str


def list_packages() -> list[Package]:
    """The packages that sqb needs on this machine, and those of its extras, each once."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages: dict[str, Package] = {}
    for extra in ("", *EXTRAS):
        texts = project["optional-dependencies"][extra] if extra else project["dependencies"]
        for name in _find_needed(texts):
            packages.setdefault(name, Package(name, read_license(name), extra))
    return [packages[name] for name in sorted(packages)]


def _find_needed(texts: list[str]) -> set[str]:
    """The names of what requirements ask for, and of what that asks for in turn."""
    waiting = [(Requirement(text), "") for text in texts]
    done: set[tuple[str, str]] = set()
    while waiting:
        requirement, asked_with = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": asked_with}):
            continue
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in done:
                done.add((name, extra))
                waiting += [(Requirement(text), extra) for text in metadata.requires(name) or ()]
    return {name for name, _ in done}


def read_license(name: str) -> str:
    """The licence of an installed package as an expression of SPDX, as far as its metadata lets one say it."""
    info = metadata.metadata(name)
    written = (info.get("License-Expression") or info.get("License") or "").strip()
    # Some have the whole text there, and one says "Dual License".
    if not written or "\n" in written or written in ("Dual License", "UNKNOWN"):
        named = [
            text.rsplit(" :: ", 1)[-1] for text in info.get_all("Classifier") or () if text.startswith("License ::")
        ]
        written = " OR ".join(SPELLINGS.get(text, text) for text in named)
    return SPELLINGS.get(written, written)


def find_unknown(license: str) -> list[str]:
    """The parts of an expression that are not among the licences that may be used."""
    return [part for part in re.split(r" (?:AND|OR) |[()]", license) if part.strip() not in ALLOWED]


def format_page() -> str:
    """The page."""
    rows = [(p.name, p.license, f"`{p.extra}`" if p.extra else "") for p in list_packages()]
    jars = [*sorted(RUNTIMES.values()), AWS]
    scripts = [(f"{item.package} {item.version}", read_script_license(item.target)) for item in LIBRARIES]
    parts = [
        _INTRO,
        "## Packages\n",
        "The extras `dagster` and `otel` bring packages that are not in this list.\n",
        _format_table(("package", "licence", "only with the extra"), rows),
        "## In the pages of a project\n",
        "`sqb docs build` copies these scripts beside the pages, with their licences.\n",
        _format_table(("script", "licence"), scripts),
        "## Jars\n",
        "Spark's jars are part of PySpark. Of these, what a connection needs is fetched from Maven once:\n",
        _format_table(("jar", "licence"), [(f"`{jar}`", "Apache-2.0") for jar in jars]),
    ]
    return "\n".join(parts)


def read_script_license(script: str) -> str:
    """The licence of a script of the pages, by the text beside it."""
    text = (FOLDER / f"{script.split('.')[0]}.LICENSE.txt").read_text(encoding="utf-8")
    return "MIT" if "Permission is hereby granted, free of charge" in text else "unknown"


def _format_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main() -> int:
    """Write the page."""
    PAGE.write_text(format_page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
