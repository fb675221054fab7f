"""The settings file and the YAML files of a converted project."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def write_settings(name: str, schema: str, variables: Mapping[str, Any], kinds: Sequence[tuple[str, str]]) -> str:
    """`sqlbuild_project.toml`: one target, the variables, and the kinds of folders."""
    lines = [f'name = "{name}"', "", 'default_target = "dev"', ""]
    if variables:
        lines += ["[vars]", *(f"{key} = {_write_value(value)}" for key, value in sorted(variables.items())), ""]
    lines += ["# A target is a place to build to: all relations are in one schema, as with dbt.", "[targets.dev]"]
    lines += [f'schema = "{schema}"', ""]
    default = next((kind for folder, kind in reversed(kinds) if not folder), "view")
    lines += ["[defaults]", f'kind = "{default}"', ""]
    for folder, kind in kinds:
        if folder:
            lines += [f'[path_defaults."models/{folder}/**"]', f'kind = "{kind}"', ""]
    lines += [
        "# Without a [connections.…] section everything is on this machine: Spark runs here, the tables are in lake/."
    ]
    return "\n".join(lines) + "\n"


def _write_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return json.dumps(str(value), ensure_ascii=False)


def write_yaml(document: Mapping[str, Any]) -> str:
    """A document, its keys in the order that they have."""
    import yaml  # only a conversion writes YAML

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return text
