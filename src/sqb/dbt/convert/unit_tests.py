"""Unit tests of dbt's, in YAML: the same rows in the words of tests/*.yml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.marks import Relation
from sqb.dbt.convert.project import DbtProject, Property
from sqb.dbt.convert.report import Report

_REF = re.compile(r"ref\(\s*(?:['\"][^'\"]+['\"]\s*,\s*)?['\"]([^'\"]+)['\"]\s*\)")
_SOURCE = re.compile(r"source\(\s*['\"]([^'\"]+)['\"]\s*,\s*['\"]([^'\"]+)['\"]\s*\)")


Sources = Mapping[tuple[str, str], Relation]


def convert_unit_tests(
    project: DbtProject, relations: Mapping[str, Relation], sources: Sources, report: Report
) -> list[dict[str, Any]]:
    """The tests that have a counterpart here."""
    tests = []
    for name, written in project.properties.get("unit_tests", {}).items():
        try:
            tests.append(_convert(name, written, relations, sources))
        except Unconvertible as problem:
            report.leave_out(written.file, written.line, f"the unit test {name}: {problem.what}", problem.why)
    return tests


def _convert(name: str, written: Property, relations: Mapping[str, Relation], sources: Sources) -> dict[str, Any]:
    values = written.values
    model = str(values.get("model"))
    if model not in relations:
        raise Unconvertible(f"the model {model}", "the project does not have it")
    overrides = values.get("overrides") or {}
    if overrides.get("macros") or overrides.get("env_vars"):
        raise Unconvertible("`overrides`", "a test here is about the query of the model alone")
    test: dict[str, Any] = {"name": name, "model": relations[model].qualified}
    if values.get("description"):
        test["description"] = " ".join(str(values["description"]).split())
    if overrides.get("vars"):
        test["vars"] = overrides["vars"]
    test["given"] = {
        _name_input(str(given.get("input")), relations, sources): _read_rows(given)
        for given in values.get("given") or ()
    }
    test["expect"] = _read_rows(values.get("expect") or {})
    return test


def _name_input(text: str, relations: Mapping[str, Relation], sources: Sources) -> str:
    ref, source = _REF.fullmatch(text.strip()), _SOURCE.fullmatch(text.strip())
    if ref is not None and ref[1] in relations:
        return relations[ref[1]].qualified
    if source is not None:
        declared = sources.get((source[1], source[2]))
        return declared.qualified if declared is not None else f"{source[1]}.{source[2]}"
    raise Unconvertible(f"the input {text}", "it is not a model, a seed or a source of the project")


def _read_rows(given: Mapping[str, Any]) -> Any:
    if given.get("fixture"):
        raise Unconvertible("`fixture`", "rows are written in the test here")
    rows = given.get("rows")
    match str(given.get("format") or "dict"), rows:
        case "dict", list():
            return rows
        case "dict", None:
            return []
        case "csv", str():
            return {"csv": rows}
    raise Unconvertible(f"rows in the format {given.get('format')}", "rows are mappings or CSV here")
