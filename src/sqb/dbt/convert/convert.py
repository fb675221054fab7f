"""A dbt project becomes the files of a sqb project.

The texts are all that is read: dbt is not asked, and no database. What they do not decide is left out and reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.dbt.convert.checks import CheckConverter, Input, NodeChecks, list_tests
from sqb.dbt.convert.context import FileContext, Library, evaluate_setting
from sqb.dbt.convert.documents import write_settings, write_yaml
from sqb.dbt.convert.header import write_comment, write_header
from sqb.dbt.convert.jinja.evaluate import Evaluator, Members
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.jinja.template import list_definitions, parse_template
from sqb.dbt.convert.marks import Relation
from sqb.dbt.convert.models import ConvertedModel, ModelConverter
from sqb.dbt.convert.project import DbtProject, SourceFile, list_folders, read_project
from sqb.dbt.convert.render import Renderer
from sqb.dbt.convert.report import Remark, Report
from sqb.dbt.convert.seeds import describe_seed
from sqb.dbt.convert.settings import list_folder_kinds, list_folder_settings, merge_settings
from sqb.dbt.convert.sources import find_tests_of_sources, read_exposures, read_sources
from sqb.dbt.convert.unit_tests import convert_unit_tests
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.table_names import find_tables

_NAME = re.compile(r"[A-Za-z_]\w*")
_PLAIN_KINDS = {"view": "view", "table": "table", "ephemeral": "view"}


@dataclass(frozen=True, slots=True)
class Conversion:
    """The files of the new project by path, and what the user should know of the old one."""

    name: str
    files: Mapping[str, str]
    remarks: tuple[Remark, ...]
    models: int


def convert_project(root: Path) -> Conversion:
    """Convert the dbt project in a folder."""
    report = Report()
    project = read_project(root, report)
    return _Converter(project, report).convert()


class _Converter:
    def __init__(self, project: DbtProject, report: Report) -> None:
        self.project = project
        self.report = report
        self.files: dict[str, str] = {}
        self.target = _read_target(project)
        self.library = Library(project.name, project.macros, project.variables, self.target, project.packages)
        self.snapshots = self._list_snapshots()
        self.renderer = Renderer(self.library, report, bool(self.snapshots))
        self.models: dict[str, ConvertedModel] = {}
        # The tables of sources that seeds have which are switched off.
        self.stand_ins: dict[str, str] = {}

    def convert(self) -> Conversion:
        """Everything, in the order in which one needs the other."""
        self._collect_relations()
        self._convert_models()
        self._convert_seeds()
        checks = self._convert_tests()
        tests = convert_unit_tests(self.project, self.library.relations, self.library.sources, self.report)
        if tests:
            self.files["tests/unit_tests.yml"] = write_yaml({"tests": tests})
        exposures = read_exposures(self.project, self.report)
        if exposures:
            self.files["exposures/exposures.yml"] = write_yaml({"exposures": exposures})
        self._write_models(checks)
        self.files |= self.library.writer.write_files()
        self._mention_the_rest()
        kinds = [("/".join(path), _PLAIN_KINDS[k]) for path, k in self._list_kinds() if k in _PLAIN_KINDS]
        settings = write_settings(self.project.name, self.target["schema"], self.renderer.variables, kinds)
        self.files = {"sqlbuild_project.toml": settings, **self.files}
        count = sum(model.sql is not None for model in self.models.values())
        return Conversion(self.project.name, self.files, self.report.list_remarks(), count)

    def _list_kinds(self) -> list[tuple[tuple[str, ...], str]]:
        tree = self.project.settings.get("models")
        top = merge_settings([s for _, s in list_folder_settings(tree, self.project.name, (), "")][:1])
        first: list[tuple[tuple[str, ...], str]] = [((), str(top["materialized"]))] if "materialized" in top else []
        # Settings may be for a single file too; its header has those.
        present = {
            file.folders[:depth] for file in self.project.files["models"] for depth in range(len(file.folders) + 1)
        }
        return [*first, *((path, kind) for path, kind in list_folder_kinds(tree, self.project.name) if path in present)]

    def _list_snapshots(self) -> set[str]:
        names = set(self.project.properties.get("snapshots", {}))
        for file in self.project.files["snapshots"]:
            names |= set(re.findall(r"\{%-?\s*snapshot\s+(\w+)", file.text))
        return names

    def _collect_relations(self) -> None:
        relations = self.library.relations
        for file in self.project.files["models"]:
            folder = "_".join(file.folders) or "default"
            if _NAME.fullmatch(file.stem) is None or not all(re.fullmatch(r"\w+", part) for part in file.folders):
                self.report.leave_out(file.path, 1, f"the model {file.stem}", "names have letters, digits and _ here")
                continue
            if file.stem in relations:
                self.report.leave_out(file.path, 1, f"the model {file.stem}", "another file has this name")
                continue
            relations[file.stem] = Relation(file.stem, f"{folder}.{file.stem}")
        for file in self.project.files["seeds"]:
            relations.setdefault(file.stem, Relation(file.stem, f"seeds.{file.stem}"))
        for name in self.snapshots:
            relations.setdefault(name, Relation(name, f"snapshots.{name}"))
        self.library.sources, declared = read_sources(self.project, self._read_text, self.report)
        own = {f"{self.target['schema']}.{name}".lower(): relation for name, relation in relations.items()}
        own |= self._list_seeds_elsewhere()
        for key, source in self.library.sources.items():
            # What the project builds itself is not a source here.
            self.library.sources[key] = own.get(source.name.lower(), source)
        declared = {
            path: left for path, s in declared.items() if (left := [d for d in s if d["name"].lower() not in own])
        }
        for path, sources in declared.items():
            self.files[path] = write_yaml({"sources": sources})

    def _list_seeds_elsewhere(self) -> dict[str, Relation]:
        """The seeds with a schema of their own, by their tables; those that are switched off stand for sources."""
        seeds = {}
        for file in self.project.files["seeds"]:
            settings = self._read_seed_settings(file)
            table = f"{settings.get('schema') or self.target['schema']}.{settings.get('alias') or file.stem}".lower()
            if settings.get("enabled") is not False:
                seeds[table] = self.library.relations[file.stem]
            elif any(source.name.lower() == table for source in self.library.sources.values()):
                self.stand_ins[file.stem] = table
        return seeds

    def _read_text(self, text: str) -> str:
        """The schema or the table of a source, which may be written in Jinja; raises Unconvertible."""
        return str(evaluate_setting(self.library, text))

    def _convert_models(self) -> None:
        converter = ModelConverter(self.project, self.renderer, self.report, self._name_schema)
        for file in self.project.files["models"]:
            relation = self.library.relations.get(file.stem)
            folder = "_".join(file.folders) or "default"
            if relation is None or relation.qualified != f"{folder}.{file.stem}" or file.stem in self.models:
                continue
            path = "/".join(("models", *file.folders, f"{file.stem}.sql"))
            self.models[file.stem] = converter.convert_model(file, path)
        for file in self.project.files["snapshots"]:
            self._convert_snapshots_of(file, converter)
        for name, written in self.project.properties.get("snapshots", {}).items():
            if name not in self.models and written.values.get("relation"):
                self.models[name] = converter.convert_snapshot_of_yaml(name, written)
        converter.report_settings()

    def _convert_snapshots_of(self, file: SourceFile, converter: ModelConverter) -> None:
        try:
            definitions = [d for d in list_definitions(parse_template(file.text)) if d.kind == "snapshot"]
        except Unconvertible as problem:
            self.report.leave_out(file.path, problem.line, problem.what, problem.why)
            return
        for definition in definitions:
            self.models[definition.name] = converter.convert_snapshot(file, definition)

    def _name_schema(self, custom: str, node: Mapping[str, str]) -> str:
        """The schema that dbt gives to a node with a `schema` of its own."""
        macro = self.library.find_macro(None, "generate_schema_name")
        usual = f"{self.target['schema']}_{custom.strip()}"
        if macro is None:
            return usual
        try:
            context = FileContext(self.library, values={"target": self.target})
            return (
                str(Evaluator(context, macro.file).call_macro(macro, (custom, Members("node", node)), {})).strip()
                or usual
            )
        except Unconvertible as problem:
            self.report.note(macro.file, problem.line, f"generate_schema_name: {problem.what}", f"{usual} is taken")
            return usual

    def _read_seed_settings(self, file: SourceFile) -> dict[str, Any]:
        """What dbt_project.yml and the properties of a seed set, with the schema that it is in."""
        project = self.project
        levels = list_folder_settings(project.settings.get("seeds"), project.name, file.folders, file.stem)
        written = project.properties.get("seeds", {}).get(file.stem)
        config = written.values.get("config") if written is not None else None
        merged = merge_settings([*(s for _, s in levels), config if isinstance(config, dict) else {}])
        settings = {key: self._evaluate(key, value) for key, value in merged.items()}
        if settings.get("schema"):
            node = {"resource_type": "seed", "name": file.stem}
            settings["schema"] = self._name_schema(str(settings["schema"]), node)
        return settings

    def _evaluate(self, key: str, value: Any) -> Any:
        """A setting of seeds; None where only dbt knows it."""
        if not isinstance(value, str) or "{{" not in value:
            return value
        try:
            return self.renderer.evaluate_setting(key, value, "dbt_project.yml", self.project.lines.get("seeds", 1))
        except Unconvertible as problem:
            self.report.leave_out(problem.file, problem.line, f"{problem.what} (for seeds)", problem.why)
            return None

    def _convert_seeds(self) -> None:
        for file in self.project.files["seeds"]:
            if _NAME.fullmatch(file.stem) is None:
                self.report.leave_out(file.path, 1, f"the seed {file.stem}", "names have letters, digits and _ here")
                continue
            written = self.project.properties.get("seeds", {}).get(file.stem)
            settings = self._read_seed_settings(file)
            document = describe_seed(file, settings, written, self.report)
            description = written.values.get("description") if written is not None else None
            extra: dict[str, Any] = {}
            if isinstance(description, str) and description and "{{" not in description:
                extra["description"] = " ".join(description.split())
            extra |= {key: settings[key] for key in ("tags", "schema", "alias") if settings.get(key)}
            if settings.get("enabled") is False:
                extra["enabled"] = False
                if (source := self.stand_ins.get(file.stem)) is not None:
                    why = f"it is switched off; to build {source} from it, set `enabled` and remove that source"
                    self.report.note(file.path, 1, f"the seed {file.stem}", why)
            base = "/".join(("seeds", *file.folders, file.stem))
            self.files[f"{base}.csv"] = file.text
            self.files[f"{base}.yml"] = write_yaml({**extra, **document})

    def _convert_tests(self) -> dict[str, NodeChecks]:
        checks = {name: NodeChecks(model.kind) for name, model in self.models.items() if model.sql is not None}
        order = self._sort()
        inputs = self._list_inputs()
        converter = CheckConverter(self.project, self.renderer, self.report, checks, self._reads, inputs)
        for sort in ("models", "snapshots", "seeds"):
            for name, written in self.project.properties.get(sort, {}).items():
                for test in list_tests(written.entry, name, written.file):
                    converter.convert(test)
        for name, file, entry in find_tests_of_sources(self.project):
            for test in list_tests(entry, name, file):
                converter.convert(test)
        for source in self.project.files["tests"]:
            if "generic" in source.folders:
                continue
            try:
                rendered = self.renderer.render_model(source.text, source.path)
            except Unconvertible as problem:
                self.report.leave_out(problem.file or source.path, problem.line, problem.what, problem.why)
                continue
            if rendered.config.get("enabled") is not False and not converter.convert_singular(
                source.stem, rendered.sql, rendered.refs, rendered.config, order
            ):
                self.report.leave_out(source.path, 1, "the test", "it reads nothing that a model makes or reads")
        self.files |= converter.audits
        return checks

    def _list_inputs(self) -> dict[str, Input]:
        """The seeds and sources, by the names that their tests have for them."""
        own = self.library.relations
        relations = {s.stem: own[s.stem] for s in self.project.files["seeds"] if s.stem not in self.models}
        relations |= {".".join(key): relation for key, relation in self.library.sources.items()}
        readers: dict[str, list[str]] = {}
        for name in self._sort():
            for table in find_tables(tokenize_code(self.models[name].sql or "")):
                if not table.is_cte:
                    readers.setdefault(".".join(table.parts).lower(), []).append(name)
        return {
            name: Input(
                relation.qualified,
                tuple(
                    dict.fromkeys(r for n in (relation.name, relation.qualified) for r in readers.get(n.lower(), ()))
                ),
            )
            for name, relation in relations.items()
            if name not in self.models
        }

    def _sort(self) -> dict[str, int]:
        """The place of each model among those that it reads, directly or not."""
        order: dict[str, int] = {}

        def visit(name: str, path: tuple[str, ...]) -> None:
            if name in order or name in path or name not in self.models:
                return
            for ref in self.models[name].refs:
                visit(ref, (*path, name))
            order[name] = len(order)

        for name in self.models:
            visit(name, ())
        return order

    def _reads(self, reader: str, read: str) -> bool:
        """Whether a model reads another, directly or not."""
        stack, seen = [reader], set[str]()
        while stack:
            name = stack.pop()
            if name in seen or name not in self.models:
                continue
            seen.add(name)
            if read in self.models[name].refs:
                return True
            stack += self.models[name].refs
        return False

    def _write_models(self, checks: Mapping[str, NodeChecks]) -> None:
        kinds = dict(self._list_kinds())
        for name, model in self.models.items():
            if model.sql is None:
                self.files[model.path] = _write_disabled(model)
                continue
            header = model.header | checks[name].to_header()
            folders = tuple(model.path.split("/")[1:-1])
            inherited = "view"
            for depth in range(len(folders) + 1):
                inherited = _PLAIN_KINDS.get(kinds.get(folders[:depth], ""), inherited)
            if header.get("kind") == inherited:
                del header["kind"]
            self.files[model.path] = write_header(header) + model.sql

    def _mention_the_rest(self) -> None:
        for file in self.project.files["analyses"]:
            self.report.leave_out(file.path, 1, "the analysis", "`sqb query` runs a query that is not a model")
        for file in self.project.files["functions"]:
            why = f"it is functions/{file.stem}.sql with CREATE FUNCTION here, or functions/{file.stem}.py with a def"
            self.report.leave_out(file.path, 1, f"the function {file.stem}", why)
        settings, lines = self.project.settings, self.project.lines
        for key in ("on-run-start", "on-run-end"):
            if settings.get(key):
                self.report.leave_out(
                    "dbt_project.yml",
                    lines.get(key, 1),
                    f"`{key}`",
                    f"a function in python/ with @{key.replace('-', '_')} does it",
                )
        for name in ("packages.yml", "dependencies.yml"):
            if (self.project.root / name).is_file():
                why = "their macros and tests are read from dbt_packages/ where models use them; their models are not"
                self.report.note(name, 1, "packages", why)
        folders = list_folders("models", settings)
        if len(folders) > 1:
            self.report.note(
                "dbt_project.yml",
                lines.get("model-paths", 1),
                "model-paths",
                f"{', '.join(folders)} are one folder here",
            )


def _write_disabled(model: ConvertedModel) -> str:
    """A model that was not converted: disabled, with its text as a comment."""
    comment = write_comment(["Not converted:", f"  {model.problem}", "", *model.original.splitlines()])
    return f"MODEL (\n  enabled false,\n);\n\n{comment}SELECT NULL AS not_converted\n"


def _read_target(project: DbtProject) -> dict[str, Any]:
    """The target of the profile that is beside the project, if there is one."""
    from sqb.errors.base import Errors
    from sqb.project.config.located import to_plain_value
    from sqb.project.config.yaml import read_yaml

    schema, name = project.name, "dev"
    path = project.root / "profiles.yml"
    document = read_yaml(path, path.name, Errors()) if path.is_file() else None
    profiles: Any = to_plain_value(document) if document is not None else {}
    profile = profiles.get(str(project.settings.get("profile"))) if isinstance(profiles, dict) else None
    if isinstance(profile, dict) and isinstance(profile.get("outputs"), dict):
        name = str(profile.get("target") or next(iter(profile["outputs"]), name))
        output = profile["outputs"].get(name)
        written = str(output.get("schema") or "") if isinstance(output, dict) else ""
        schema = written if _NAME.fullmatch(written) else schema
    name = name if re.fullmatch(r"\w+", name) else "dev"
    return {"name": name, "schema": re.sub(r"\W", "_", schema), "type": "spark"}
