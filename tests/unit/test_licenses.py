"""What comes along with sqb: its licences allow use, a page names all of them, and the SBOM has the same packages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import make_licenses
import make_sbom
import pytest
from packaging.utils import canonicalize_name
from vendor_page import LIBRARIES

import sqb
from support.required import missing

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \|", re.MULTILINE)


def test_no_licence_forbids_use() -> None:
    refused = {p.name: p.license for p in make_licenses.list_packages() if make_licenses.find_unknown(p.license)}
    assert refused == {}
    assert {make_licenses.read_script_license(item.target) for item in LIBRARIES} <= make_licenses.ALLOWED


@pytest.mark.parametrize("license", ["", "GPL-3.0", "Proprietary", "MIT AND AGPL-3.0-only", "SSPL-1.0 OR MIT"])
def test_other_licences_are_told(license: str) -> None:
    assert make_licenses.find_unknown(license)


def test_the_page_has_all_of_them() -> None:
    """Another Python or system may need fewer packages than the one that wrote the page, and no others."""
    page = make_licenses.PAGE.read_text(encoding="utf-8")
    written = set(_ROW.findall(page))
    assert set(_ROW.findall(make_licenses.format_page())) - written == set()
    locked = {canonicalize_name(n) for n in re.findall(r"(?m)^([\w.-]+)==", (ROOT / "requirements.lock").read_text())}
    packages = _ROW.findall(page.partition("## In the pages")[0])
    assert {name for name, _ in packages} - {"package", "---"} <= locked


def test_every_script_of_the_pages_has_its_licence_beside_it() -> None:
    assert {path.name for path in make_licenses.FOLDER.glob("*.js")} == {item.target for item in LIBRARIES}


def test_sbom(tmp_path: Path) -> None:
    if not make_sbom.PYTHON.exists():
        missing("cyclonedx-py is not installed: scripts/docs_env.py makes .venv-docs")
    file = tmp_path / "sbom.json"
    command = [sys.executable, str(ROOT / "scripts" / "make_sbom.py"), "--into", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    document = json.loads(file.read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["version"] == sqb.__version__
    components = {item["purl"]: item for item in document["components"]}
    names = {canonicalize_name(purl.split("/")[1].split("@")[0]) for purl in components if purl.startswith("pkg:pypi/")}
    assert names == {package.name for package in make_licenses.list_packages()}
    assert sum(purl.startswith("pkg:npm/") for purl in components) == len(LIBRARIES)
    assert all("version" in item for item in components.values())
    # Nothing of this machine.
    assert "file:" not in file.read_text() and str(ROOT) not in file.read_text()
