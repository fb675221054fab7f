"""Write the JSON Schemas of TOML and YAML files, from the code's own tables of keys, into `src/sqb/schemas`.

python scripts/make_schemas.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

from schema_texts import TEXTS

from sqb.inspect.lint.rules import RULES
from sqb.inspect.lint.settings import RULE_KEYS, SEVERITIES
from sqb.lsp.key_texts import KEY_TEXTS, KIND_TEXTS
from sqb.names import DURATION_UNITS
from sqb.project import exposures, seeds, sources, unit_tests
from sqb.project.config import config, dbt, openlineage_section, targets, virtual_section
from sqb.project.config.connections import read as connections
from sqb.project.config.format_section import KEYS as FORMAT_KEYS
from sqb.project.config.settings import ENGINE_MODES
from sqb.project.models.keys import KEYS, Key, Shape
from sqb.selection import selectors_file
from sqb.selection.methods import METHODS, OTHER_METHODS
from sqb.sql.formatting.settings import CommaStyle, FormatSettings, KeywordCase

FOLDER = Path(__file__).resolve().parents[1] / "src/sqb/schemas"
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
SCALAR: Schema = {"type": ["string", "number", "boolean"]}
SCALAR_OR_NOTHING: Schema = {"type": ["string", "number", "boolean", "null"]}
TEXTS_IN_A_LIST: Schema = {"type": "array", "items": TEXT}
TEXT_OR_TEXTS: Schema = {"anyOf": [TEXT, TEXTS_IN_A_LIST]}
DURATION: Schema = {"type": "string", "pattern": f"^ *([0-9][0-9 ]*({'|'.join(DURATION_UNITS)}) *)+$"}
COUNT: Schema = {"type": "integer", "minimum": 0}
POSITIVE: Schema = {"type": "integer", "minimum": 1}
# `spark.x = 1` without quotes is a table in TOML.
OPTIONS: Schema = {"$ref": "#/definitions/options"}
OPTIONS_DEFINITION: Schema = {"type": "object", "additionalProperties": {"anyOf": [SCALAR, OPTIONS]}}


def main() -> None:
    """Write all schemas."""
    FOLDER.mkdir(exist_ok=True)
    for name, build in BUILDERS.items():
        text = json.dumps(build(), indent=2, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def _build_table(room: str, keys: Iterable[str], schemas: dict[str, Schema], **more: Any) -> Schema:
    """A closed table: exactly the code's keys, each with its sentence."""
    return {
        "type": "object",
        "properties": {key: {"description": _describe(room, key), **schemas[key]} for key in keys},
        "additionalProperties": False,
        **more,
    }


def _describe(room: str, key: str) -> str:
    return TEXTS[room][key] if key in TEXTS[room] else KEY_TEXTS[key]


def _build_named(room: str, table: Schema) -> Schema:
    return {"type": "object", "description": TEXTS["project"][room], "additionalProperties": table}


def _build_list(title: str, key: str, item: Schema, definitions: dict[str, Schema] | None = None) -> Schema:
    """A file whose only key holds a list; an empty file and an empty list are none."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        "type": ["object", "null"],
        "properties": {key: {"type": ["array", "null"], "items": item}},
        "additionalProperties": False,
        **({"definitions": definitions} if definitions else {}),
    }


# --- sqlbuild_project.toml ------------------------------------------------------------------------------------------


def build_project_schema() -> Schema:
    """The schema of `sqlbuild_project.toml` and `sqlbuild_local.toml`, which has any part of the same."""
    schemas: dict[str, Schema] = {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
        "default_target": TEXT,
        "concurrency": POSITIVE,
        "engine": {"enum": list(ENGINE_MODES)},
        "incremental": _build_incremental(),
        "janitor": _build_janitor(),
        "virtual": _build_virtual(),
        "dbt": _build_dbt(),
        "format": _build_format(),
        "lint": _build_lint(),
        "openlineage": _build_openlineage(),
        "packages": _build_packages(),
        "targets": _build_named("targets", _build_target()),
        "connections": _build_named("connections", _build_connection()),
        "defaults": {"$ref": "#/definitions/settings"},
        "path_defaults": _build_named("path_defaults", {"$ref": "#/definitions/settings"}),
        "vars": {
            "type": "object",
            "propertyNames": {"pattern": r"^[A-Za-z_][^\s.-]*$"},
            "additionalProperties": SCALAR,
        },
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "sqlbuild_project.toml",
        **_build_table("project", config.TOP_KEYS, schemas),
        "definitions": {"options": OPTIONS_DEFINITION, "settings": _build_settings()},
    }


def _build_incremental() -> Schema:
    schemas = {"min_rows": COUNT, "max_share": {"type": "number", "minimum": 0}, "small_rows": COUNT}
    return _build_table("incremental", config.GATE_KEYS, schemas)


def _build_janitor() -> Schema:
    schemas = {**dict.fromkeys(config.AGE_KEYS, DURATION), "keep_snapshots": POSITIVE}
    return _build_table("janitor", (*config.AGE_KEYS, "keep_snapshots"), schemas)


def _build_virtual() -> Schema:
    name = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"}
    schemas: dict[str, Schema] = {
        "enabled": FLAG,
        "state": TEXT,
        "unsuffixed_virtual_env": name,
        "baseline": name,
        "ttl": DURATION,
        "grace": DURATION,
        "keep_checkpoints": POSITIVE,
    }
    return _build_table("virtual", virtual_section.VIRTUAL_KEYS, schemas)


def _build_packages() -> Schema:
    clause = r"\s*(~=|==|!=|<=|>=|<|>)\s*v?\d[^,]*"
    return {
        "type": "object",
        "propertyNames": {"pattern": r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"},
        "additionalProperties": {"type": "string", "pattern": rf"^(\s*\*\s*|{clause}(,{clause})*)$"},
    }


def _build_openlineage() -> Schema:
    words = {"type": "string", "pattern": "\\S"}
    schemas: dict[str, Schema] = {
        "enabled": FLAG,
        "url": {"type": "string", "pattern": "^https?://"},
        **dict.fromkeys(("file", "namespace", "dataset_namespace"), words),
    }
    return _build_table("openlineage", openlineage_section.OPENLINEAGE_KEYS, schemas)


def _build_dbt() -> Schema:
    folder = {"type": "string", "pattern": "\\S"}
    schemas: dict[str, Schema] = {
        **dict.fromkeys(("project_dir", "profiles_dir", "target_path"), folder),
        "replay_on_change": {"enum": list(dbt.REPLAYS)},
        "command": {"anyOf": [folder, {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}]},
        "share_spark": FLAG,
    }
    return _build_table("dbt", dbt.DBT_KEYS, schemas)


def _build_target() -> Schema:
    schemas: dict[str, Schema] = {
        "schema": {"type": "string", "pattern": r"^([A-Za-z0-9_]|\{folder\})+$"},
        "connection": TEXT,
        "loaders": {"enum": list(targets.LOADERS)},
        "reuse_from": TEXT,
        "reuse_hard_copy": FLAG,
        "defer_sources_to": TEXT,
    }
    return _build_table("target", targets.TARGET_KEYS, schemas)


def _build_connection() -> Schema:
    catalog: dict[str, Schema] = {
        "type": {"enum": list(connections.CATALOG_TYPES)},
        "uri": TEXT,
        "warehouse": {"type": "string", "minLength": 1},
        "name": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "options": OPTIONS,
    }
    spark: dict[str, Schema] = {"master": {"type": "string", "minLength": 1}, "remote": TEXT, "conf": OPTIONS}
    both = {"not": {"required": ["master", "remote"]}}
    tables = {
        "catalog": _build_table("catalog", connections.CATALOG_KEYS, catalog),
        "spark": _build_table("spark", connections.SPARK_KEYS, spark, **both),
    }
    return _build_table("connection", connections.CONNECTION_KEYS, tables)


def _build_settings() -> Schema:
    """Keys of models, in a file of settings."""
    words = {word: key for key in KEYS.values() for word in (key.name, *key.synonyms)}
    properties = {word: {"description": KEY_TEXTS[key.name], **_build_value(key)} for word, key in words.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _build_value(key: Key) -> Schema:
    match key.shape:
        case Shape.CHOICE if key.name == "kind":
            lines = "\n".join(f"{kind}: {text}" for kind, text in KIND_TEXTS.items())
            return {"description": f"{KEY_TEXTS['kind']}\n\n{lines}", "enum": [*key.choices, *key.value_synonyms]}
        case Shape.CHOICE:
            return {"enum": [*key.choices, *key.value_synonyms]}
        case Shape.WORD:
            return {"type": "string", "pattern": r"^\s*\S+\s*$"}
        case Shape.TEXT:
            return {"type": "string", "pattern": r"\S"}
        case Shape.FLAG:
            return {"anyOf": [FLAG, {"type": "string", "pattern": "^ *([tT][rR][uU][eE]|[fF][aA][lL][sS][eE]) *$"}]}
        case Shape.COLUMNS:
            return {"anyOf": [*TEXT_OR_TEXTS["anyOf"], {"type": "object", "additionalProperties": SCALAR}]}
        case Shape.OPTIONS:
            return OPTIONS
        case Shape.MAPPING:
            return {"type": "object"}
        case Shape.NAMES | Shape.EXPRESSIONS | Shape.CALLS | Shape.STATEMENTS | Shape.CONTRACT:
            return TEXT_OR_TEXTS


def _build_format() -> Schema:
    default = FormatSettings()
    schemas = {
        "line_length": {"type": "integer", "minimum": 20, "maximum": 1000, "default": default.line_length},
        "keyword_case": {"enum": list(get_args(KeywordCase)), "default": default.keyword_case},
        "indent": {"type": "integer", "minimum": 1, "maximum": 8, "default": default.indent},
        "commas": {"enum": list(get_args(CommaStyle)), "default": default.commas},
    }
    return _build_table("format", FORMAT_KEYS, schemas)


def _build_lint() -> Schema:
    # Rules of one's own have any name.
    properties = {name: {"description": rule.text, **_build_rule()} for name, rule in RULES.items()}
    return {"type": "object", "properties": properties, "additionalProperties": _build_rule()}


def _build_rule() -> Schema:
    schemas = {
        "severity": {"enum": list(SEVERITIES)},
        "paths": TEXT_OR_TEXTS,
        "exclude": TEXT_OR_TEXTS,
        "pattern": TEXT,
    }
    return {"anyOf": [{"enum": list(SEVERITIES)}, _build_table("rule", RULE_KEYS, schemas)]}


# --- YAML -----------------------------------------------------------------------------------------------------------


def build_sources_schema() -> Schema:
    """The schema of `sources/*.yml`."""
    age = _build_table("age_policy", sources.AGE_KEYS, dict.fromkeys(sources.AGE_KEYS, DURATION))
    freshness: dict[str, Schema] = {
        "strategy": {"enum": list(sources.STRATEGIES)},
        "column": TEXT,
        "sql": TEXT,
        "type": {"enum": list(sources.CURSOR_TYPES)},
        "filter": TEXT,
        "lag_tolerance": DURATION,
        "age_policy": age,
    }
    source: dict[str, Schema] = {
        **dict.fromkeys(("description", "owner", "group", "path", "expression"), TEXT),
        "name": {"type": "string", "pattern": r"^[^\s.]+(\.[^\s.]+)?$"},
        "format": {"enum": list(sources.FORMATS)},
        "options": OPTIONS,
        "managed": FLAG,
        "freshness": _build_table("freshness", sources.FRESHNESS_KEYS, freshness),
    }
    more = {
        "required": ["name"],
        "dependencies": {"format": ["path"], "options": ["path"]},
        "not": {"required": ["path", "expression"]},
    }
    item = _build_table("source", sources.SOURCE_KEYS, source, **more)
    return _build_list("sources/*.yml", "sources", item, {"options": OPTIONS_DEFINITION})


def build_exposures_schema() -> Schema:
    """The schema of `exposures/*.yml`."""
    owner = _build_table("exposure_owner", exposures.OWNER_KEYS, dict.fromkeys(exposures.OWNER_KEYS, TEXT))
    dependency: Schema = {
        "anyOf": [
            TEXT,
            {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": TEXT_OR_TEXTS},
        ]
    }
    schemas: dict[str, Schema] = {
        **dict.fromkeys(("type", "label", "description", "url"), TEXT),
        "name": {"type": "string", "pattern": r"^\S+$"},
        "owner": {"anyOf": [TEXT, owner]},
        "depends_on": {"type": ["array", "null"], "items": dependency},
    }
    item = _build_table("exposure", exposures.EXPOSURE_KEYS, schemas, required=["name"])
    return _build_list("exposures/*.yml", "exposures", item)


def build_tests_schema() -> Schema:
    """The schema of `tests/**/*.yml`."""
    columns = {"anyOf": [{"type": "array"}, {"type": "object", "additionalProperties": TEXT}]}
    table: dict[str, Schema] = {
        "columns": columns,
        "rows": {"type": ["array", "null"], "items": {"type": ["object", "array"]}},
        "csv": TEXT,
    }
    rows = {
        "anyOf": [
            {"type": "array", "items": {"type": "object"}},
            _build_table("rows", unit_tests.TABLE_KEYS, table, **{"not": {"required": ["rows", "csv"]}}),
        ]
    }
    tables = {"type": "object", "additionalProperties": {"$ref": "#/definitions/rows"}}
    variable = {"anyOf": [SCALAR_OR_NOTHING, {"type": "array", "items": SCALAR_OR_NOTHING}]}
    test: dict[str, Schema] = {
        **dict.fromkeys(("name", "model", "description", "now"), TEXT),
        "vars": {"type": "object", "additionalProperties": variable},
        "given": tables,
        "expect": {"$ref": "#/definitions/rows"},
        "expect_ctes": tables,
        "ordered": FLAG,
    }
    more = {"required": ["name", "model"], "anyOf": [{"required": ["expect"]}, {"required": ["expect_ctes"]}]}
    item = _build_table("test", unit_tests.TEST_KEYS, test, **more)
    return _build_list("tests/**/*.yml", "tests", item, {"rows": rows})


def build_seed_schema() -> Schema:
    """The schema of the `.yml` beside a seed or a golden file."""
    column: dict[str, Schema] = {"name": SCALAR, "type": TEXT, "description": TEXT}
    columns = [
        {"type": "null"},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "array", "items": _build_table("column", seeds.COLUMN_KEYS, column, required=["name"])},
    ]
    schemas: dict[str, Schema] = {
        "columns": {"anyOf": columns},
        "delimiter": {"type": "string", "minLength": 1, "maxLength": 2},
        "null_values": {"type": "array", "items": SCALAR_OR_NOTHING},
        **{name: _build_value(KEYS[name]) for name in seeds.SEED_SETTINGS},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "seeds/**/*.yml",
        **_build_table("seed", seeds.SEED_KEYS, schemas),
        "type": ["object", "null"],
        "definitions": {"options": OPTIONS_DEFINITION},
    }


def build_selectors_schema() -> Schema:
    """The schema of `selectors.yml`."""
    definition = {"$ref": "#/definitions/definition"}
    flag_keys = ("parents", "children", "childrens_parents")
    method: dict[str, Schema] = {
        "method": TEXT,
        "value": SCALAR,
        **dict.fromkeys(flag_keys, FLAG),
        **dict.fromkeys(("parents_depth", "children_depth"), COUNT),
        "exclude": {"type": "array", "items": definition},
    }
    item = {"anyOf": [definition, _build_single("exclude", {"type": "array", "items": definition})]}
    parts = {"type": "array", "items": item}
    known = sorted({*filter(None, METHODS), "selector", *OTHER_METHODS})
    short = {
        "type": "object",
        "properties": dict.fromkeys(known, SCALAR),
        "patternProperties": {r"^config\.": SCALAR},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    forms = [
        TEXT,
        _build_table("method", selectors_file.METHOD_KEYS, method, required=["method", "value"]),
        _build_single("union", parts),
        _build_single("intersection", parts),
        short,
    ]
    schemas: dict[str, Schema] = {"name": TEXT, "description": TEXT, "definition": definition}
    table = _build_table("selector", selectors_file.SELECTOR_KEYS, schemas, required=["name", "definition"])
    return _build_list("selectors.yml", "selectors", table, {"definition": {"anyOf": forms}})


def _build_single(key: str, schema: Schema) -> Schema:
    return {"type": "object", "properties": {key: schema}, "required": [key], "additionalProperties": False}


BUILDERS: dict[str, Callable[[], Schema]] = {
    "sqlbuild_project": build_project_schema,
    "sources": build_sources_schema,
    "exposures": build_exposures_schema,
    "tests": build_tests_schema,
    "seeds": build_seed_schema,
    "selectors": build_selectors_schema,
}

if __name__ == "__main__":
    main()
