"""Write the JSON Schemas of the settings, from the code's own tables of keys, into `src/sqb/schemas`.

python scripts/make_schemas.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from sqb.inspect.lint.rules import RULES
from sqb.inspect.lint.settings import SEVERITIES
from sqb.lsp.key_texts import KEY_TEXTS
from sqb.project.config import config
from sqb.project.models.keys import KEYS, Key, Shape
from sqb.sql.formatting.settings import CommaStyle, FormatSettings, KeywordCase

FOLDER = Path(__file__).resolve().parents[1] / "src/sqb/schemas"
TEXTS = {
    "name": "The project's name.",
    "default_target": "The target that commands work on unless they are told another one.",
    "concurrency": "How many nodes run at once.",
    "vars": "Values of @@variables.",
    "targets": "Places to build to, by name.",
    "connections": "How to reach lakes and Spark, by name.",
    "defaults": "Keys of all models.",
    "path_defaults": "Keys of models by path.",
    "format": "How `sqb format` lays out SQL.",
    "lint": "The rules of `sqb lint`.",
}


def main() -> None:
    """Write all schemas."""
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(build_project_schema(), indent=2, ensure_ascii=False)
    (FOLDER / "sqlbuild_project.json").write_text(f"{text}\n", encoding="utf-8")


def build_project_schema() -> dict[str, Any]:
    """The schema of `sqlbuild_project.toml`."""
    properties: dict[str, Any] = {name: {"description": TEXTS.get(name, f"[{name}]")} for name in config._TOP}
    properties["name"]["type"] = properties["default_target"]["type"] = "string"
    properties["concurrency"] |= {"type": "integer", "minimum": 1}
    for name in ("vars", "targets", "connections", "incremental", "janitor", "virtual", "dbt"):
        properties[name]["type"] = "object"
    settings = {word: _describe_key(key) for key in KEYS.values() for word in (key.name, *key.synonyms)}
    properties["defaults"] |= {"type": "object", "properties": settings, "additionalProperties": False}
    properties["format"] |= _build_format()
    properties["lint"] |= {"type": "object", "properties": {n: _build_rule(r.text) for n, r in RULES.items()}}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "sqlbuild_project.toml",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _describe_key(key: Key) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": KEY_TEXTS.get(key.name, key.name)}
    if key.shape is Shape.CHOICE:
        schema["enum"] = [*key.choices, *key.value_synonyms]
    elif key.shape in (Shape.WORD, Shape.TEXT):
        schema["type"] = ["string", "number", "boolean"]
    elif key.shape is Shape.FLAG:
        schema["type"] = ["boolean", "string"]
    return schema


def _build_format() -> dict[str, Any]:
    default = FormatSettings()
    properties = {
        "line_length": {"type": "integer", "minimum": 20, "maximum": 1000, "default": default.line_length},
        "keyword_case": {"enum": list(get_args(KeywordCase)), "default": default.keyword_case},
        "indent": {"type": "integer", "minimum": 1, "maximum": 8, "default": default.indent},
        "commas": {"enum": list(get_args(CommaStyle)), "default": default.commas},
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _build_rule(text: str) -> dict[str, Any]:
    globs = {"type": "array", "items": {"type": "string"}}
    table = {"severity": {"enum": list(SEVERITIES)}, "paths": globs, "exclude": globs, "pattern": {"type": "string"}}
    whole = {"type": "object", "properties": table, "additionalProperties": False}
    return {"description": text, "anyOf": [{"enum": list(SEVERITIES)}, whole]}


if __name__ == "__main__":
    main()
