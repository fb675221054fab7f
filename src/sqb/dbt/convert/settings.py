"""The configuration of one model, seed or snapshot: what dbt_project.yml says of its folders, its YAML, and itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ADDING = ("tags",)
_HOOKS = {"pre-hook": "pre_hook", "post-hook": "post_hook"}
# Settings of dbt's whose value is a mapping, so that they do not look like folders.
_MAPPINGS = frozenset(
    (
        "persist_docs",
        "meta",
        "grants",
        "tblproperties",
        "column_types",
        "docs",
        "contract",
        "freshness",
        "snapshot_meta",
    )
)


def merge_settings(levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of several levels, later ones winning; tags and hooks add up."""
    merged: dict[str, Any] = {}
    for level in levels:
        for written, value in level.items():
            key = _HOOKS.get(written, written)
            if key in _ADDING or key in _HOOKS.values():
                merged[key] = [*merged.get(key, []), *_to_list(value)]
            elif key in ("meta", "column_types") and isinstance(value, dict):
                merged[key] = {**merged.get(key, {}), **value}
            else:
                merged[key] = value
    if "tags" in merged:
        merged["tags"] = list(dict.fromkeys(merged["tags"]))
    return merged


def list_folder_settings(
    tree: object, project: str, folders: Sequence[str], stem: str
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The settings that dbt_project.yml has on the way to a file, with the folders that each is for."""
    if not isinstance(tree, dict):
        return
    yield (), _own_settings(tree)
    level: Any = tree.get(project)
    path: tuple[str, ...] = ()
    for step in (*folders, stem, None):
        if not isinstance(level, dict):
            return
        yield path, _own_settings(level)
        if step is None:
            return
        path, level = (*path, step), level.get(step)


def list_folder_kinds(tree: object, project: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every folder with a `materialized` of its own, the outermost first."""
    if not isinstance(tree, dict):
        return
    stack: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), tree.get(project) or {})]
    while stack:
        path, level = stack.pop(0)
        if not isinstance(level, dict):
            continue
        kind = _own_settings(level).get("materialized")
        if isinstance(kind, str):
            yield path, kind
        stack += [((*path, str(name)), inner) for name, inner in level.items() if _is_folder(name, inner)]


def _own_settings(level: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key).removeprefix("+"): value for key, value in level.items() if not _is_folder(key, value)}


def _is_folder(key: object, value: object) -> bool:
    return isinstance(value, dict) and not str(key).startswith("+") and str(key) not in _MAPPINGS


def _to_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
