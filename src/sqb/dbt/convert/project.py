"""A dbt project as its files have it: settings, the files of each sort, properties with their places, macros, docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqb.dbt.convert.jinja.evaluate import Macro
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.jinja.template import Definition, Text, list_definitions, parse_template
from sqb.dbt.convert.report import Report
from sqb.errors.base import Errors
from sqb.errors.call import InitRefused
from sqb.project.config.located import Entry, to_plain_value
from sqb.project.config.yaml import read_yaml

DBT_PROJECT_FILE = "dbt_project.yml"
# The settings for folders, with their names before dbt 1.0, and where they point by themselves.
_FOLDERS: Mapping[str, tuple[str, str, str]] = {
    "models": ("model-paths", "source-paths", "models"),
    "seeds": ("seed-paths", "data-paths", "seeds"),
    "snapshots": ("snapshot-paths", "snapshot-paths", "snapshots"),
    "tests": ("test-paths", "test-paths", "tests"),
    "macros": ("macro-paths", "macro-paths", "macros"),
    "analyses": ("analysis-paths", "analysis-paths", "analyses"),
    "functions": ("function-paths", "function-paths", "functions"),
}
_NOT_CONVERTED = ("metrics", "semantic_models", "saved_queries", "groups")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the project: its path from there, the folders between its own root and it, and its text."""

    path: str
    folders: tuple[str, ...]
    stem: str
    text: str


@dataclass(frozen=True, slots=True)
class Property:
    """What a YAML file says of one thing."""

    file: str
    entry: Entry

    @property
    def values(self) -> dict[str, Any]:
        """The plain values by key."""
        value = to_plain_value(self.entry)
        return value if isinstance(value, dict) else {}

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.entry.at.line or 1


@dataclass(frozen=True, slots=True)
class DbtProject:
    """Everything that is read of a dbt project."""

    root: Path
    name: str
    settings: Mapping[str, Any]
    lines: Mapping[str, int]
    files: Mapping[str, tuple[SourceFile, ...]]
    # By what they are of (models, sources, …), and then by name.
    properties: Mapping[str, Mapping[str, Property]]
    macros: Mapping[tuple[str, str], Macro]
    generic_tests: Mapping[tuple[str, str], Macro]
    docs: Mapping[str, str] = field(default_factory=dict)
    # The packages that packages.yml names, installed or not.
    packages: frozenset[str] = frozenset()

    @property
    def variables(self) -> dict[str, Any]:
        """The values of variables: those for all packages, and over them those for this one."""
        written = self.settings.get("vars")
        values = dict(written) if isinstance(written, dict) else {}
        own = values.pop(self.name, None)
        return values | (own if isinstance(own, dict) else {})


def read_project(root: Path, report: Report) -> DbtProject:
    """Read a dbt project; files that cannot be read are in the report."""
    if not (root / DBT_PROJECT_FILE).is_file():
        hint = f"name the folder that has {DBT_PROJECT_FILE}"
        raise InitRefused(f"{root} is not a dbt project: it has no {DBT_PROJECT_FILE}", hint=hint)
    document = read_yaml(root / DBT_PROJECT_FILE, DBT_PROJECT_FILE, errors := Errors())
    for error in errors.found:
        hint = "what it sets decides what becomes of every other file"
        line = error.at.line if error.at is not None else 1
        raise InitRefused(f"{root / DBT_PROJECT_FILE}:{line}: {error.message}", hint=hint)
    entries = document.value if document is not None and isinstance(document.value, dict) else {}
    settings = {key: to_plain_value(entry) for key, entry in entries.items()}
    name = str(settings.get("name") or "project")
    files = {sort: tuple(_iter_files(root, sort, settings)) for sort in _FOLDERS}
    macros, tests = _read_macros(root, name, files, settings, report)
    return DbtProject(
        root=root,
        name=name,
        settings=settings,
        lines={key: entry.key_at.line or 1 for key, entry in entries.items()},
        files=files,
        properties=_read_properties(root, settings, report),
        macros=macros,
        generic_tests=tests,
        docs=_read_docs(root, settings, report),
        packages=frozenset(_iter_packages(root)),
    )


def _iter_packages(root: Path) -> Iterator[str]:
    """The names by which macros of packages are called, as far as their addresses tell."""
    for file in ("packages.yml", "dependencies.yml"):
        document = read_yaml(root / file, file, Errors()) if (root / file).is_file() else None
        listed = to_plain_value(document) if document is not None else None
        for entry in (listed.get("packages") or []) if isinstance(listed, dict) else []:
            address = next((entry[key] for key in ("package", "git", "local") if entry.get(key)), "")
            yield (
                str(address).rstrip("/").rpartition("/")[2].removesuffix(".git").removeprefix("dbt-").replace("-", "_")
            )


def _read_document(root: Path, path: Path, report: Report) -> Entry | None:
    errors = Errors()
    file = path.relative_to(root).as_posix()
    document = read_yaml(path, file, errors)
    for error in errors.found:
        at = error.at
        report.leave_out(file, at.line if at is not None and at.line else 1, "the file", error.message)
    return document


def list_folders(sort: str, settings: Mapping[str, Any]) -> list[str]:
    """The folders for a sort of files, as dbt_project.yml or dbt itself says."""
    key, old, default = _FOLDERS[sort]
    value = settings.get(key, settings.get(old))
    if isinstance(value, list) and value:
        return [str(item).strip("/") for item in value]
    return [default]


def _iter_files(root: Path, sort: str, settings: Mapping[str, Any]) -> Iterator[SourceFile]:
    endings = {"seeds": (".csv",), "models": (".sql", ".py"), "functions": (".sql", ".py")}.get(sort, (".sql",))
    for folder in list_folders(sort, settings):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in endings or not path.is_file():
                continue
            relative = path.relative_to(root / folder)
            text = path.read_text(encoding="utf-8-sig", errors="replace")
            yield SourceFile(path.relative_to(root).as_posix(), relative.parts[:-1], path.stem, text)


def _iter_property_files(root: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    for sort in _FOLDERS:
        for folder in list_folders(sort, settings):
            yield from (p for p in sorted((root / folder).rglob("*")) if p.suffix in (".yml", ".yaml"))


def _read_properties(root: Path, settings: Mapping[str, Any], report: Report) -> dict[str, dict[str, Property]]:
    properties: dict[str, dict[str, Property]] = {}
    for path in dict.fromkeys(_iter_property_files(root, settings)):
        document = _read_document(root, path, report)
        if document is None or not isinstance(document.value, dict):
            continue
        file = path.relative_to(root).as_posix()
        for sort, entry in document.value.items():
            if sort in _NOT_CONVERTED and entry.value:
                report.leave_out(file, entry.key_at.line or 1, f"`{sort}`", "there is nothing like it here")
            for item in entry.value if isinstance(entry.value, list) else ():
                if isinstance(item.value, dict) and "name" in item.value:
                    name = str(item.value["name"].value)
                    sort_of_name = "sources" if sort == "sources" else sort
                    by_name = properties.setdefault(sort_of_name, {})
                    key = f"{name}#{len(by_name)}" if sort == "sources" and name in by_name else name
                    by_name[key] = Property(file, item)
    return properties


def _read_macros(
    root: Path,
    name: str,
    files: Mapping[str, tuple[SourceFile, ...]],
    settings: Mapping[str, Any],
    report: Report,
) -> tuple[dict[tuple[str, str], Macro], dict[tuple[str, str], Macro]]:
    macros: dict[tuple[str, str], Macro] = {}
    tests: dict[tuple[str, str], Macro] = {}
    packages = root / str(settings.get("packages-install-path") or "dbt_packages")
    for folder in sorted(packages.glob("*/macros")):
        package = folder.parent.name
        for path in sorted(folder.rglob("*.sql")):
            text = path.read_text(encoding="utf-8-sig", errors="replace")
            _collect(text, path.relative_to(root).as_posix(), package, macros, tests, Report())
    for file in (*files["macros"], *(f for f in files["tests"] if "generic" in f.folders)):
        _collect(file.text, file.path, name, macros, tests, report)
    return macros, tests


def _collect(
    text: str,
    file: str,
    package: str,
    macros: dict[tuple[str, str], Macro],
    tests: dict[tuple[str, str], Macro],
    report: Report,
) -> None:
    try:
        definitions = list_definitions(parse_template(text))
    except Unconvertible as problem:
        report.leave_out(file, problem.line, problem.what, problem.why)
        return
    for definition in definitions:
        if definition.kind == "materialization":
            why = "a way to build of one's own is a function in materializations/*.py"
            report.leave_out(file, definition.line, "a materialization", why)
        target = tests if definition.kind == "test" else macros if definition.kind == "macro" else None
        if target is not None:
            target[(package, definition.name)] = Macro(definition, file, package)


def _read_docs(root: Path, settings: Mapping[str, Any], report: Report) -> dict[str, str]:
    docs: dict[str, str] = {}
    for sort in _FOLDERS:
        for folder in list_folders(sort, settings):
            for path in sorted((root / folder).rglob("*.md")):
                file = path.relative_to(root).as_posix()
                docs |= _read_docs_of(path.read_text(encoding="utf-8-sig", errors="replace"), file, report)
    return docs


def _read_docs_of(text: str, file: str, report: Report) -> dict[str, str]:
    try:
        definitions = list_definitions(parse_template(text))
    except Unconvertible as problem:
        report.leave_out(file, problem.line, problem.what, problem.why)
        return {}
    return {d.name: _read_text(d) for d in definitions if d.kind == "docs"}


def _read_text(definition: Definition) -> str:
    return "".join(node.text for node in definition.body if isinstance(node, Text)).strip()
