"""Models as their files say, before anything is resolved: drafts, with every mistake reported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from sqb.checks.model import Check
from sqb.checks.parse import CheckReader, read_check, read_checks
from sqb.checks.validate_columns import find_misfits
from sqb.compile.errors import build_expansion_error, build_jinja_error, build_sql_error
from sqb.compile.functions.calls import (
    inline_functions,
)
from sqb.compile.functions.definitions import Analyst as FunctionAnalyst
from sqb.compile.functions.definitions import Functions
from sqb.compile.hooks import read_hooks
from sqb.compile.materializations import check_cursor_use
from sqb.compile.python.nodes import (
    read_model_settings,
)
from sqb.compile.renames import add_former_names, list_former_names
from sqb.compile.resolve import Draft
from sqb.errors.base import Errors
from sqb.errors.project import BadCall, BadName
from sqb.names import At, Relation, locate_offset, quote
from sqb.project import files
from sqb.project.models.header import parse_header
from sqb.project.models.jinja import find_jinja
from sqb.project.models.keys import merge_settings
from sqb.project.models.kinds import list_added_columns
from sqb.project.python.nodes import WrittenNode
from sqb.project.values import Call, Config, Setting, Target
from sqb.sql.analysis.query import Query, QueryProblem
from sqb.sql.delta.joins.model import Joins
from sqb.sql.functions.inline import CallProblem
from sqb.sql.text.expand import ExpansionContext, ExpansionProblem, expand

_NAME = re.compile(r"[A-Za-z0-9_]+")


class Analyst(FunctionAnalyst, Protocol):
    """What reads SQL, and remembers what it read."""

    def read(self, text: str, forced: Mapping[int, str]) -> Query: ...
    def columns(self, text: str) -> tuple[str, ...]: ...
    def joins(self, text: str, count: int) -> Joins: ...
    def is_cold(self) -> bool: ...
    def dump_answers(self) -> bytes: ...
    def load_answers(self, data: bytes) -> None: ...


def read_model(
    root: Path,
    path: str,
    config: Config,
    target: Target,
    words: ExpansionContext,
    reader: CheckReader,
    functions: Functions,
    errors: Errors,
) -> Draft:
    """A model; one that is reported as wrong has no query, but still the name that others call it by."""
    text = files.read_text(root, path, errors)
    if text is not None and "{" in text and (jinja := find_jinja(text)) is not None:
        # Nothing else that could be said of it is of use.
        errors.add(build_jinja_error(text, path, *jinja))
        text = None
    header = parse_header(text or "", path, errors)
    settings = merge_settings(path, header, config, errors)
    folder, name = _split_path(path, "models")
    relation = derive_relation(path, folder, name, target, settings, errors)
    draft = Draft(
        f"{folder}.{name}", folder, "model", _get_setting(settings, "kind", "table"), relation, path, At(path), settings
    )
    draft = _read_former_names(draft, target, errors)
    if text is None or _get_setting(settings, "enabled", True) is False:
        return draft
    in_hooks = functions.extend_words(words)
    hooks = read_hooks(settings, in_hooks, lambda problem, at: build_expansion_error(problem, at, words), errors)
    draft = replace(draft, checks=_read_checks(settings, reader, errors), hooks=hooks)
    try:
        expanded = expand(text, header.body_start, words)
    except ExpansionProblem as problem:
        at = locate_offset(text, problem.start, path, problem.end - problem.start)
        errors.add(build_expansion_error(problem, at, words))
        return draft
    try:
        query = reader.query(expanded.text, expanded.forced)
    except QueryProblem as problem:
        errors.add(build_sql_error(problem, text, path, expanded))
        return draft
    draft = replace(draft, text=text, expanded=expanded, query=query)
    try:
        draft = inline_functions(draft, functions, reader.query)
    except CallProblem as problem:
        at = locate_offset(text, expanded.trace_origin(problem.start), path, max(1, problem.end - problem.start))
        errors.add(BadCall(problem.message, at=at, hint=problem.hint))
        return replace(draft, query=None)
    _refuse_misfits(draft, errors)
    check_cursor_use(draft, errors)
    return draft


def read_python_model(
    function: WrittenNode,
    config: Config,
    target: Target,
    words: ExpansionContext,
    reader: CheckReader,
    functions: Functions,
    errors: Errors,
) -> Draft:
    """A model that is a function."""
    settings = read_model_settings(function, config, errors)
    parts = function.file.removeprefix("python/models/").split("/")[:-1]
    folder = "_".join(parts) or "default"
    relation = derive_relation(function.file, folder, function.name, target, settings, errors)
    kind = _get_setting(settings, "kind", "table")
    draft = Draft(
        f"{folder}.{function.name}",
        folder,
        "model",
        kind,
        relation,
        function.file,
        function.at,
        settings,
        python=function,
    )
    draft = _read_former_names(draft, target, errors)
    if not is_enabled(draft):
        return draft
    hooks = read_hooks(
        settings, functions.extend_words(words), lambda problem, at: build_expansion_error(problem, at, words), errors
    )
    return replace(draft, checks=_read_checks(settings, reader, errors), hooks=hooks)


def _read_checks(settings: Mapping[str, Setting], reader: CheckReader, errors: Errors) -> tuple[Check, ...]:
    """The checks that are written, and those that a contract's `not null` means."""
    checks = read_checks(settings, reader, errors)
    contract = settings.get("contract")
    if contract is None:
        return checks
    calls = [Call("not_null", (quote(c.name),), contract.at) for c in contract.value if c.not_null]
    promised = [read_check("constraint", call, reader, errors) for call in calls]
    return (*checks, *(check for check in promised if check is not None))


def _refuse_misfits(draft: Draft, errors: Errors) -> None:
    """Report checks on columns that the query does not have, where its text says its columns."""
    # What a materialisation writes need not have the columns of its query.
    if draft.checks and draft.query is not None and draft.query.outputs is not None and draft.kind != "custom":
        added_columns = (name for name, _ in list_added_columns(draft.kind))
        for error in find_misfits(draft.checks, dict.fromkeys((*draft.query.outputs, *added_columns))):
            errors.add(error)


def _split_path(path: str, top: str) -> tuple[str, str]:
    parts = path.removeprefix(f"{top}/").removesuffix(".sql").split("/")
    return "_".join(parts[:-1]) or "default", parts[-1]


def _get_setting(settings: Mapping[str, Setting], key: str, default: Any) -> Any:
    return settings[key].value if key in settings else default


def derive_relation(
    path: str, folder: str, name: str, target: Target, settings: Mapping[str, Setting], errors: Errors
) -> Relation:
    schema = _get_setting(settings, "schema", None) or target.schema.replace("{folder}", folder)
    table = _get_setting(settings, "alias", None) or name
    for word, what in ((schema, "schema"), (table, "name")):
        if not _NAME.fullmatch(word):
            key = "schema" if what == "schema" else "alias"
            at = settings[key].at if key in settings else At(path)
            errors.add(
                BadName(
                    f'"{word}" cannot be the {what} of a relation',
                    at=at,
                    hint=f"use letters, digits and underscores: rename the file or folder, or set `{key}`",
                )
            )
    if table.lower().startswith("_sqlbuild"):
        errors.add(BadName(f'"{table}" is a name that sqb keeps for its own tables', at=At(path)))
    return Relation(schema, table)


def _read_former_names(draft: Draft, target: Target, errors: Errors) -> Draft:
    """The model with what its header says of its former names."""
    relations = {}
    for former in list_former_names(draft):
        folder, _, name = former.partition(".")
        relations[former] = derive_relation(draft.file, folder, name, target, draft.settings, errors)
    return add_former_names(draft, relations) if relations else draft


def is_enabled(draft: Draft) -> bool:
    return _get_setting(draft.settings, "enabled", True) is not False
