"""Write build/sbom.json: what an installation of sqb consists of, as a CycloneDX document. `make sbom` runs this.

cyclonedx-py, in .venv-docs, describes the environment that this runs in. Of that stays what sqb itself needs, without
the tools of its development; the scripts of the pages are added.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from make_licenses import ROOT, list_packages, read_script_license
from vendor_page import LIBRARIES

import sqb

PYTHON = ROOT / ".venv-docs" / "bin" / "python"
NAME = "sqb-spark"
REF = f"pkg:pypi/{NAME}@{sqb.__version__}"
_VALIDATE = """\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(str(problem) if problem else 0)
"""


def describe_environment() -> dict[str, Any]:
    """All packages of the environment that this runs in, as CycloneDX."""
    command = [PYTHON, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--short-PURLs", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def keep_installation(document: dict[str, Any]) -> dict[str, Any]:
    """The document with sqb as what is described, and with what it needs alone."""
    needed = {package.name for package in list_packages()}
    components = [item for item in document["components"] if _name(item) in needed]
    scripts = [_describe_script(item.package, item.version, item.target) for item in LIBRARIES]
    refs = {item["bom-ref"] for item in components}
    edges = [
        {**edge, "dependsOn": [ref for ref in edge.get("dependsOn", ()) if ref in refs]}
        for edge in document.get("dependencies", ())
        if edge["ref"] in refs
    ]
    roots = {_name(item): item["bom-ref"] for item in components}
    ours = {"ref": REF, "dependsOn": sorted([*roots.values(), *(script["bom-ref"] for script in scripts)])}
    root = {"type": "application", "bom-ref": REF, "name": NAME, "version": sqb.__version__, "purl": REF}
    licenses = [{"license": {"id": "Apache-2.0", "acknowledgement": "declared"}}]
    return {
        **document,
        "metadata": {**document.get("metadata", {}), "component": {**root, "licenses": licenses}},
        "components": [_drop_places(item) for item in components] + scripts,
        "dependencies": [ours, *edges],
    }


def _name(component: dict[str, Any]) -> str:
    return str(component["name"]).lower().replace("_", "-").replace(".", "-")


def _drop_places(component: dict[str, Any]) -> dict[str, Any]:
    """A component without addresses on this machine."""
    references = component.get("externalReferences", [])
    public = [item for item in references if not item["url"].startswith("file:")]
    return {**{k: v for k, v in component.items() if k != "externalReferences"}} | (
        {"externalReferences": public} if public else {}
    )


def _describe_script(package: str, version: str, target: str) -> dict[str, Any]:
    purl = f"pkg:npm/{package.replace('@', '%40')}@{version}"
    licenses = [{"license": {"id": read_script_license(target), "acknowledgement": "declared"}}]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package,
        "version": version,
        "purl": purl,
        "licenses": licenses,
    }


def main() -> int:
    """Describe, check against CycloneDX's schema, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "sbom.json", help="the file to write")
    into: Path = parser.parse_args().into
    text = json.dumps(keep_installation(describe_environment()), indent=2)
    subprocess.run([PYTHON, "-c", _VALIDATE], input=text, text=True, check=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(text + "\n", encoding="utf-8")
    print(f"wrote {into}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
