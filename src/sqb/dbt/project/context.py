"""What dbt's own settings say that a manifest does not: variables, the target, large seeds.

These files are only read. Nothing here is needed while a dbt project is as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Where results may go and what they may be called; the rest of a profile is how to get there.
_TARGET_KEYS = ("type", "schema", "database", "catalog")


@dataclass(frozen=True, slots=True)
class DbtContext:
    """What the code of a dbt project may ask for, as far as it is known without running dbt."""

    # Every value that a variable has somewhere: for all packages, for one, or in the call.
    variables: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    # The name of the target and what decides where it is.
    target: str = ""
    project_dir: Path = Path(".")
    # The catalog whose schemas dbt may name with it or without.
    catalog: str = ""

    def encode_variable(self, name: str) -> str:
        return json.dumps(self.variables.get(name, ()), sort_keys=True, default=str)

    def strip_catalog(self, name: str) -> str:
        """The name of a schema within the catalog."""
        first, dot, rest = name.partition(".")
        return rest if dot and self.catalog and first.lower() == self.catalog.lower() else name

    def hash_file(self, path: str) -> str:
        """The hash of a file of the dbt project; "" when it cannot be read."""
        with suppress(OSError), (self.project_dir / path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
        return ""


def read_context(
    project_dir: Path,
    profiles_dir: Path,
    *,
    profile: str | None = None,
    target: str | None = None,
    variables: Mapping[str, Any] | None = None,
    catalog: str = "",
) -> DbtContext:
    """The context of a call; `profile`, `target` and `variables` are what the call says."""
    document = _read_document(project_dir / "dbt_project.yml")
    profiles = _read_document(profiles_dir / "profiles.yml")
    return DbtContext(
        _read_variables(project_dir, document, variables or {}),
        os.environ,
        _encode_target(profiles, profile or document.get("profile"), target),
        project_dir,
        catalog,
    )


def _read_document(path: Path) -> dict[str, Any]:
    import yaml  # a dbt project that is as it was is planned without

    with suppress(OSError, ValueError, yaml.YAMLError):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return document if isinstance(document, dict) else {}
    return {}


def _read_variables(
    project_dir: Path, project: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, tuple[Any, ...]]:
    folder = project_dir / str(project.get("packages-install-path") or "dbt_packages")
    documents = [project, *(_read_document(path) for path in sorted(folder.glob("*/dbt_project.yml")))]
    values: dict[str, tuple[Any, ...]] = {}
    for document in documents:
        for name, value in _iter_variables(document.get("vars")):
            values[name] = (*values.get(name, ()), value)
    # What the call says wins over all others.
    return {**values, **{name: (value,) for name, value in overrides.items()}}


def _iter_variables(variables: object) -> Iterator[tuple[str, Any]]:
    """Variables by name; a mapping is a variable, and may be those of one package too."""
    for name, value in variables.items() if isinstance(variables, dict) else ():
        yield str(name), value
        if isinstance(value, dict):
            yield from ((str(n), v) for n, v in value.items())


def _encode_target(profiles: Mapping[str, Any], profile: object, target: str | None) -> str:
    chosen = profiles.get(str(profile))
    chosen = chosen if isinstance(chosen, dict) else {}
    name = target or str(chosen.get("target") or "default")
    outputs = chosen.get("outputs")
    output = outputs.get(name) if isinstance(outputs, dict) else None
    settings = {key: output[key] for key in _TARGET_KEYS if key in output} if isinstance(output, dict) else {}
    return json.dumps([name, settings], sort_keys=True, default=str)
