"""Sources and exposures: from the properties of dbt's to the files in sources/ and exposures/."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.marks import Relation
from sqb.dbt.convert.project import DbtProject, Property
from sqb.dbt.convert.report import Report
from sqb.project.config.located import Entry
from sqb.project.exposures import EXPOSURE_KEYS, OWNER_KEYS

_PERIODS = {"minute": "m", "hour": "h", "day": "d"}
_COLUMN = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"[\w$-]+")


def read_sources(
    project: DbtProject, read_text: Callable[[str], str], report: Report
) -> tuple[dict[tuple[str, str], Relation], dict[str, list[dict[str, Any]]]]:
    """What `source('a', 'b')` means for each, and the declarations, by the file that they are written to."""
    relations: dict[tuple[str, str], Relation] = {}
    files: dict[str, list[dict[str, Any]]] = {}
    for written in project.properties.get("sources", {}).values():
        values = written.values
        name = str(values.get("name"))
        schema = str(values.get("schema") or name)
        with contextlib.suppress(Unconvertible):
            schema = read_text(schema)
        if _NAME.fullmatch(schema) is None:
            report.note(
                written.file,
                written.line,
                f"the schema of the source {name}",
                f"`{schema}` is not a name; {name} is taken",
            )
            schema = name
        if values.get("database"):
            why = "the catalog is a setting of the connection here"
            report.note(written.file, written.line, f"the database of the source {name}", why)
        entries = written.entry.value.get("tables")
        for entry in entries.value if entries is not None and isinstance(entries.value, list) else ():
            table = Property(written.file, entry)
            identifier = str(table.values.get("identifier") or table.values.get("name"))
            with contextlib.suppress(Unconvertible):
                identifier = read_text(identifier)
            if _NAME.fullmatch(identifier) is None:
                known_as = str(table.values.get("name"))
                why = f"`{identifier}` is not a name; {known_as} is taken"
                report.note(table.file, table.line, f"the table {name}.{known_as}", why)
                identifier = known_as
            qualified = f"{schema}.{identifier}"
            relations[(name, str(table.values.get("name")))] = Relation(qualified, qualified)
            declared = _declare(qualified, table, values, report)
            file = f"sources/{re.sub(r'[^A-Za-z0-9_]', '_', name)}.yml"
            if all(known["name"].lower() != qualified.lower() for items in files.values() for known in items):
                files.setdefault(file, []).append(declared)
    return relations, files


def _declare(qualified: str, table: Property, source: Mapping[str, Any], report: Report) -> dict[str, Any]:
    values = table.values
    declared: dict[str, Any] = {"name": qualified}
    description = " ".join(str(values.get("description") or source.get("description") or "").split())
    if description and "{{" not in description:
        declared["description"] = description
    freshness = _read_freshness(values, source, qualified)
    if freshness:
        declared["freshness"] = freshness
        if "column" in freshness:
            why = f"a build counts it as changed when the greatest `{freshness['column']}` is another one"
            report.note(table.file, table.line, f"the freshness of {qualified}", why)
    if values.get("external"):
        report.leave_out(table.file, table.line, f"`external` of {qualified}", "files are sources with a `path` here")
    return declared


def _read_freshness(values: Mapping[str, Any], source: Mapping[str, Any], qualified: str) -> dict[str, Any]:
    levels = [level for owner in (source, values) for level in (owner, owner.get("config") or {})]
    policy: dict[str, Any] = {}
    field = ""
    for level in levels:
        if "freshness" in level:
            policy = {**policy, **level["freshness"]} if isinstance(level["freshness"], dict) else {}
        field = str(level.get("loaded_at_field") or field)
    ages = {key: _write_duration(policy.get(key)) for key in ("warn_after", "error_after")}
    ages = {key: age for key, age in ages.items() if age}
    if not ages:
        return {}
    if not field:
        return {"age_policy": ages}
    if _COLUMN.fullmatch(field):
        question: dict[str, Any] = {"column": field}
        if policy.get("filter"):
            question["filter"] = str(policy["filter"])
    else:
        condition = f" WHERE {policy['filter']}" if policy.get("filter") else ""
        question = {"sql": f"SELECT max({field}) FROM {qualified}{condition}"}
    return {**question, "type": "timestamp", "age_policy": ages}


def _write_duration(value: Any) -> str:
    if not isinstance(value, dict) or value.get("count") is None or str(value.get("period")) not in _PERIODS:
        return ""
    return f"{value['count']}{_PERIODS[str(value['period'])]}"


def read_exposures(project: DbtProject, report: Report) -> list[dict[str, Any]]:
    """The exposures, with the keys that they have here."""
    exposures: list[dict[str, Any]] = []
    for written in project.properties.get("exposures", {}).values():
        values = written.values
        exposure = {key: values[key] for key in EXPOSURE_KEYS if values.get(key)}
        if isinstance(exposure.get("owner"), dict):
            exposure["owner"] = {k: v for k, v in exposure["owner"].items() if k in OWNER_KEYS}
        lost = [key for key in values if key not in EXPOSURE_KEYS]
        if lost:
            report.note(
                written.file,
                written.line,
                f"{', '.join(lost)} of the exposure {values['name']}",
                "there is no such key here",
            )
        depends_on = exposure.get("depends_on")
        if isinstance(depends_on, list):
            exposure["depends_on"] = [text for text in depends_on if not str(text).startswith("metric(")]
        exposures.append(exposure)
    return exposures


def find_tests_of_sources(project: DbtProject) -> list[tuple[str, str, Entry]]:
    """The tables of sources with their properties, for the tests that they have."""
    tables: list[tuple[str, str, Entry]] = []
    for written in project.properties.get("sources", {}).values():
        entries = written.entry.value.get("tables")
        for entry in entries.value if entries is not None and isinstance(entries.value, list) else ():
            tables.append(
                (
                    f"{written.values.get('name')}.{Property(written.file, entry).values.get('name')}",
                    written.file,
                    entry,
                )
            )
    return tables
