"""Models and snapshots: the query and the header of each, from its file, its folder's settings and its YAML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqb.dbt.convert.header import quote_column
from sqb.dbt.convert.incremental import translate_incremental
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.jinja.template import Definition
from sqb.dbt.convert.project import DbtProject, Property, SourceFile
from sqb.dbt.convert.render import Rendered, Renderer
from sqb.dbt.convert.report import Report
from sqb.dbt.convert.settings import list_folder_settings, merge_settings
from sqb.project.models.other_tools import translate_config
from sqb.types.parse import parse_declared_type

_PLAIN = re.compile(r"[A-Za-z_]\w*")
_KINDS = {"view": "view", "table": "table", "ephemeral": "view", "materialized_view": "table"}
# What has a meaning of its own here, or none for a table of Iceberg's.
_HANDLED = (
    *("materialized", "incremental_strategy", "unique_key", "on_schema_change", "pre_hook", "post_hook", "schema"),
    *("event_time", "batch_size", "lookback", "begin", "concurrent_batches", "partition_by", "tblproperties"),
    *("meta", "docs", "access", "persist_docs", "contract", "grants", "freshness", "database", "column_types"),
    *("strategy", "check_cols", "updated_at", "target_schema", "target_database", "invalidate_hard_deletes"),
    *(
        "hard_deletes",
        "dbt_valid_to_current",
        "snapshot_meta_column_names",
        "file_format",
        "delimiter",
        "quote_columns",
    ),
    *("description", "full_refresh", "location_root", "name", "relation", "packages", "submission_method"),
)
# Those that others rely on, and that nothing here does: with the values that do nothing in dbt either.
_LOST: dict[str, tuple[tuple[Any, ...], str]] = {
    "grants": ((), "sqb grants no rights: `post_hooks` may"),
    "database": ((), "a target has one catalog"),
    "target_database": ((), "a target has one catalog"),
    "full_refresh": ((True,), "`--full-refresh` is for every selected model"),
    "hard_deletes": (("ignore", "invalidate"), "a row that is gone is closed here, without a row that says so"),
    "dbt_valid_to_current": ((), "`valid_to` of a current row is NULL here"),
    "snapshot_meta_column_names": ((), "the columns are `valid_from`, `valid_to` and `is_current` here"),
}
# Settings that are a value and no part of a query.
_VALUES = frozenset(("enabled", "schema", "alias", "materialized", "group"))


@dataclass
class ConvertedModel:
    """A model as it will be written; without a query it was not converted, and `problem` says why."""

    name: str
    path: str
    file: str
    header: dict[str, Any] = field(default_factory=dict)
    sql: str | None = None
    original: str = ""
    problem: str = ""
    refs: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Its kind, as its header has it."""
        return str(self.header.get("kind", "table"))


class ModelConverter:
    """Converts the models and snapshots of a project."""

    def __init__(
        self,
        project: DbtProject,
        renderer: Renderer,
        report: Report,
        name_schema: Callable[[str, Mapping[str, str]], str],
    ) -> None:
        self._project = project
        self._renderer = renderer
        self._report = report
        self._name_schema = name_schema
        # The files with a setting that does nothing here, by what it is called, why, and whether others rely on it.
        self._lost: dict[tuple[str, str, bool], list[str]] = {}

    def report_settings(self) -> None:
        """Say once of all models which of their settings do nothing here."""
        for (what, why, is_relied_on), files in self._lost.items():
            of = f" of {len(files)} models" if len(files) > 1 else ""
            (self._report.leave_out if is_relied_on else self._report.note)(files[0], 1, f"{what}{of}", why)

    def convert_model(self, file: SourceFile, path: str) -> ConvertedModel:
        """A model of a file."""
        written = self._project.properties.get("models", {}).get(file.stem)
        model = ConvertedModel(file.stem, path, file.path, original=file.text)
        if file.path.endswith(".py"):
            why = "it is a function in python/models/ here: @model, `ctx.ref` for `dbt.ref`, `ctx.spark` for `session`"
            return self._give_up(model, 1, "a model in Python", why)
        try:
            rendered = self._renderer.render_model(file.text, file.path)
            self._fill(model, rendered, self._merge("models", file, written, rendered.config), written)
        except Unconvertible as problem:
            return self._give_up(model, problem.line, problem.what, problem.why, problem.file)
        return model

    def convert_snapshot(self, file: SourceFile, definition: Definition) -> ConvertedModel:
        """A snapshot that is a block of a file."""
        written = self._project.properties.get("snapshots", {}).get(definition.name)
        model = ConvertedModel(
            definition.name, f"models/snapshots/{definition.name}.sql", file.path, original=file.text
        )
        try:
            rendered = self._renderer.render_nodes(definition.body, file.path)
            named = SourceFile(file.path, file.folders, definition.name, file.text)
            self._fill_snapshot(model, rendered, self._merge("snapshots", named, written, rendered.config), written)
        except Unconvertible as problem:
            return self._give_up(model, problem.line, problem.what, problem.why, problem.file)
        return model

    def convert_snapshot_of_yaml(self, name: str, written: Property) -> ConvertedModel:
        """A snapshot that is declared in YAML, of a relation."""
        model = ConvertedModel(name, f"models/snapshots/{name}.sql", written.file, original=f"snapshot {name}\n")
        try:
            relation, ref = self._renderer.evaluate_reference(
                str(written.values.get("relation") or ""), written.file, written.line
            )
            rendered = Rendered(f"SELECT * FROM {relation}\n", {}, (ref,) if ref else ())
            file = SourceFile(written.file, (), name, "")
            self._fill_snapshot(model, rendered, self._merge("snapshots", file, written, {}), written)
        except Unconvertible as problem:
            return self._give_up(model, problem.line, problem.what, problem.why, problem.file)
        return model

    def _give_up(self, model: ConvertedModel, line: int, what: str, why: str, file: str = "") -> ConvertedModel:
        place = file or model.file
        self._report.leave_out(place, line, what if place == model.file else f"{what} (for {model.name})", why)
        model.sql = None
        model.problem = f"{place}:{max(line, 1)}: {what}: {why}"
        return model

    def _merge(self, sort: str, file: SourceFile, written: Property | None, own: Mapping[str, Any]) -> dict[str, Any]:
        tree = self._project.settings.get(sort)
        levels = [s for _, s in list_folder_settings(tree, self._project.name, file.folders, file.stem)]
        if written is not None:
            values = written.values
            config = values.get("config")
            levels.append({key: values[key] for key in ("tags", "docs", "meta") if key in values})
            levels.append(config if isinstance(config, dict) else {})
        merged = merge_settings([*levels, own])
        return {key: self._render_value(key, value, written, file.path) for key, value in merged.items()}

    def _render_value(self, key: str, value: Any, written: Property | None, file: str) -> Any:
        """A setting whose text has Jinja, as dbt_project.yml may have it; hooks are rendered when they are written."""
        if isinstance(value, str) and "{{" in value and "this" not in value:
            place, line = (written.file, written.line) if written is not None else (file, 1)
            if key in _VALUES:
                return self._renderer.evaluate_setting(key, value, place, line)
            return self._renderer.render_text(value, place, line)
        return value

    def _fill(
        self, model: ConvertedModel, rendered: Rendered, settings: dict[str, Any], written: Property | None
    ) -> None:
        materialized = str(settings.get("materialized") or "view")
        partition = _read_partition(settings.get("partition_by"))
        if materialized == "incremental":
            kind = translate_incremental(settings, rendered.cursor, rendered.is_conditional, [c for c, _ in partition])
            model.header = kind.header
            for what, why in kind.notes:
                self._report.note(model.file, 1, what, why)
        elif materialized in _KINDS:
            model.header = {"kind": _KINDS[materialized]}
            if rendered.is_conditional:
                self._report.note(
                    model.file, 1, "is_incremental()", f"a {materialized} is never incremental; the block is left out"
                )
        else:
            raise Unconvertible(
                f"materialized='{materialized}'", "a way to build of one's own is a function in materializations/*.py"
            )
        if partition and model.kind != "view":
            model.header["partitioned_by"] = [expression for _, expression in partition]
        self._finish(model, rendered, settings, written)

    def _fill_snapshot(
        self, model: ConvertedModel, rendered: Rendered, settings: dict[str, Any], written: Property | None
    ) -> None:
        key = settings.get("unique_key")
        keys = key if isinstance(key, list) else [key]
        if not key or any(_PLAIN.fullmatch(str(k)) is None for k in keys):
            raise Unconvertible(f"the unique_key of the snapshot {model.name}", "it must be columns here")
        model.header = {"kind": "scd2", "unique_key": key}
        if settings.get("strategy") == "timestamp":
            why = (
                f"a row has a new version when any column changes, also without a later `{settings.get('updated_at')}`"
            )
            self._report.note(model.file, 1, f"the snapshot {model.name}", why)
        elif settings.get("check_cols") != "all":
            self._report.note(
                model.file,
                1,
                f"check_cols of the snapshot {model.name}",
                "a change of any column makes a new version here",
            )
        if settings.get("hard_deletes", "ignore") == "ignore" and not settings.get("invalidate_hard_deletes"):
            why = "a row that is gone from the query is closed here; dbt leaves it open unless hard_deletes is set"
            self._report.note(model.file, 1, f"the snapshot {model.name}", why)
        if settings.get("target_schema"):
            settings = {**settings, "whole_schema": settings["target_schema"]}
        why = "valid_from, valid_to and is_current are here what dbt_valid_from and dbt_valid_to are there"
        self._report.note(model.file, 1, f"the snapshot {model.name}", why)
        self._finish(model, rendered, settings, written)

    def _finish(
        self, model: ConvertedModel, rendered: Rendered, settings: dict[str, Any], written: Property | None
    ) -> None:
        header = model.header
        for key in _LOST.keys() & settings.keys():
            value, without_effect = settings[key], _LOST[key][0]
            if value not in (None, {}, "") and value not in without_effect:
                self._lost.setdefault((f"`{key}`", _LOST[key][1], True), []).append(model.file)
        others = {k: v for k, v in settings.items() if k not in _HANDLED and k != "whole_schema" and v is not None}
        known, notes = translate_config(others)
        if header.get("kind") == "view":
            known.pop("sorted_by", None)
        header.update({key: settings[_WRITTEN.get(key, key)] for key in known if _WRITTEN.get(key, key) in settings})
        for note in notes:
            what, why = note.partition(" is left out")[0], note.partition(": ")[2] or note
            self._lost.setdefault((what, why, False), []).append(model.file)
        if header.get("enabled") is True:
            del header["enabled"]
        if header.get("alias") == model.name:
            del header["alias"]
        if settings.get("schema") or settings.get("whole_schema"):
            header["schema"] = settings.get("whole_schema") or self._name_schema(
                str(settings["schema"]), {"resource_type": "model", "name": model.name}
            )
        properties = settings.get("tblproperties")
        if isinstance(properties, dict) and header.get("kind") != "view":
            header["table_properties"] = properties
        self._add_hooks(model, settings)
        self._add_description(model, settings, written)
        model.sql, model.refs = rendered.sql, rendered.refs

    def _add_hooks(self, model: ConvertedModel, settings: Mapping[str, Any]) -> None:
        for key in ("pre_hook", "post_hook"):
            hooks = settings.get(key)
            texts = [h.get("sql", "") if isinstance(h, dict) else str(h) for h in _to_list(hooks)]
            rendered = [self._renderer.render_text(text, model.file, 1, "@@this").strip() for text in texts]
            if any(rendered):
                model.header[f"{key}s"] = [text for text in rendered if text]

    def _add_description(self, model: ConvertedModel, settings: Mapping[str, Any], written: Property | None) -> None:
        if written is None:
            return
        values = written.values
        if "versions" in values:
            self._report.leave_out(
                written.file, written.line, f"the versions of {model.name}", "a model has one version here"
            )
        description = self._resolve_docs(values.get("description"), written)
        if description:
            model.header["description"] = description
        columns = [c for c in values.get("columns") or () if isinstance(c, dict) and c.get("name")]
        texts = {str(c["name"]): self._resolve_docs(c.get("description"), written) for c in columns}
        texts = {name: text for name, text in texts.items() if text}
        if texts:
            model.header["columns"] = texts
        contract = settings.get("contract")
        if isinstance(contract, dict) and contract.get("enforced"):
            model.header["contract"] = [_write_contract_column(c, written) for c in columns]

    def _resolve_docs(self, text: Any, written: Property) -> str:
        """A description, with the blocks of docs that it names."""

        def find(match: re.Match[str]) -> str:
            if match[1] not in self._project.docs:
                self._report.note(written.file, written.line, f"doc('{match[1]}')", "no file has these docs")
            return self._project.docs.get(match[1], "")

        resolved = re.sub(r"\{\{\s*doc\(\s*['\"]([^'\"]+)['\"]\s*\)\s*\}\}", find, str(text or ""))
        return " ".join(resolved.split())


_WRITTEN = {"partitioned_by": "partition_by", "sorted_by": "cluster_by"}


def _write_contract_column(column: Mapping[str, Any], written: Property) -> str:
    name, kind = str(column["name"]), str(column.get("data_type") or "")
    if parse_declared_type(kind) is None:
        raise Unconvertible(f"the type `{kind}` of `{name}`", "Spark has no such type", written.file, written.line)
    constraints = [c.get("type") for c in column.get("constraints") or () if isinstance(c, dict)]
    return f"{quote_column(name)} {kind}{' not null' if 'not_null' in constraints else ''}"


def _read_partition(value: Any) -> list[tuple[str, str]]:
    """The columns of `partition_by`, and how they are written here."""
    if isinstance(value, dict):
        column, grain = str(value.get("field") or ""), str(value.get("granularity") or "day")
        is_time = str(value.get("data_type") or "date").lower() != "int64"
        return [(column, f"{grain}s({column})" if is_time else column)] if column else []
    return [(str(item), str(item)) for item in _to_list(value)]


def _to_list(value: Any) -> Sequence[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
