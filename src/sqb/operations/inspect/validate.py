"""Everything that can be known of a project without running it: all errors at once. Starts no Java, unless asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.build.observe.attached import list_attached_errors, list_exposure_errors, list_test_errors
from sqb.build.observe.columns import observe_columns
from sqb.build.observe.lake import LakeState
from sqb.build.observe.mistakes import has_own_rules, iter_node_errors
from sqb.compile.model import Node
from sqb.errors.base import Errors, SqbError, flatten
from sqb.errors.lake import LakeError
from sqb.errors.project import BadLookup, CheckProblem, ProjectError, ReferenceProblem
from sqb.light_dataclass import dataclass
from sqb.operations.environment import BuildEnvironment, open_environment
from sqb.plan.observed import Observed
from sqb.project.files import (
    LOCAL_FILE,
    PROJECT_FILE,
    SELECTORS_FILE,
    find_root,
    is_there,
    list_seed_files,
    read_text,
    read_unsaved,
)
from sqb.project.models.header import parse_header
from sqb.project.models.jinja import find_jinja
from sqb.project.models.keys import KEYS, normalize_setting
from sqb.project.unread_files import find_unread_files
from sqb.workspace import Workspace, compile_workspace, compute_code_stamp, open_workspace

if TYPE_CHECKING:
    from sqb.build.spark_engine import OnDemandSpark

# What is read in the place of a model that cannot be: nothing is known of its columns, see `forget_columns`. The star
# keeps its checks from being held against a list of columns.
_STAND_IN = "SELECT * FROM (SELECT NULL AS unknown_column)"
# Files that others can do without.
_OPTIONAL = ("tests/", "exposures/")
_MAX_ROUNDS = 5
BROKEN = "it cannot be read"


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """Which environment's tables are looked at, and whether Spark is asked too."""

    virtual_env: str | None = None
    spark: bool = False


@dataclass(frozen=True, slots=True)
class Opening:
    """Which project is validated, and with which variables."""

    start: Path = Path(".")
    target: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Validation:
    """What was looked at, and everything that is wrong with it."""

    models: int
    errors: tuple[SqbError, ...] = ()
    # What is no mistake, and may not be what its author thinks.
    warnings: tuple[str, ...] = ()
    # The models that Spark analysed.
    analysed: int = 0
    root: Path | None = None

    def to_data(self) -> dict[str, Any]:
        """What `sqb validate --json` prints."""
        errors = [error.to_data() for error in self.errors]
        return {"models": self.models, "errors": errors, "warnings": list(self.warnings), "analysed": self.analysed}


@dataclass(frozen=True, slots=True)
class StandIn:
    """What is read in the place of a broken file; vague where the model may have another name than it seems."""

    text: str
    is_vague: bool = False
    # The query is the file's own: its columns are known.
    has_query: bool = False


@dataclass(frozen=True, slots=True)
class _Opened:
    """A project as far as it can be read, its lake, and what kept the rest from being read."""

    environment: BuildEnvironment
    workspace: Workspace
    seen: LakeState
    errors: tuple[SqbError, ...] = ()


def validate_project(
    opening: Opening, options: ValidateOptions, spark_of: Callable[[Workspace], OnDemandSpark] | None = None
) -> Validation:
    """Compile a project and derive the columns of all its models, as if everything ran."""
    try:
        opened = _open_project(opening, options)
    except SqbError as error:
        root = _find_root(opening)
        by_place = {(e.key(), e.message): e for e in flatten(error)}
        if root is not None:
            by_place |= {(e.key(), e.message): e for e in list_file_errors(root)}
        return Validation(0, tuple(sorted(by_place.values(), key=SqbError.key)), _find_warnings(root), root=root)
    workspace = opened.workspace
    errors = [*opened.errors, *list_file_errors(workspace.root)]
    nodes = workspace.project.nodes
    if not has_own_rules(workspace):
        after = observe_columns(workspace, opened.seen, frozenset(nodes))
        errors += [error for node in nodes.values() for error in iter_node_errors(workspace, node, after)]
        errors += list_attached_errors(workspace, after, nodes.keys())
        errors += list_test_errors(workspace, after) + list_exposure_errors(workspace, after)
    analysed = 0
    if options.spark and spark_of is not None:
        from sqb.operations.inspect.analyse import analyse_models  # loads what runs Spark

        wrong = {error.at.file for error in errors if error.at is not None}
        analysed, reported = analyse_models(opened.environment, workspace, opened.seen, wrong, spark_of(workspace))
        errors += reported
    models = sum(node.type == "model" for node in nodes.values())
    ordered = tuple(sorted(errors, key=SqbError.key))
    return Validation(models, ordered, _find_warnings(workspace.root), analysed, workspace.root)


def find_further_errors(opening: Opening, options: ValidateOptions, error: SqbError) -> SqbError:
    """An error that keeps a project from being opened, with the mistakes that it hides in other files."""
    if not all(failure.at is not None for failure in flatten(error)):
        return error
    reported = [e for e in validate_project(opening, options).errors if isinstance(e, ProjectError)]
    return _join(reported or flatten(error))


def _find_root(opening: Opening) -> Path | None:
    try:
        return find_root(opening.start)
    except SqbError:
        return None


def _find_warnings(root: Path | None) -> tuple[str, ...]:
    return tuple(find_unread_files(root)) if root is not None else ()


def list_file_errors(root: Path) -> Sequence[SqbError]:
    """What is wrong in what only some commands read: `selectors.yml`, and the sections [format] and [lint]."""
    errors = Errors()
    if is_there(root / SELECTORS_FILE):
        from sqb.selection.selectors_file import load_selectors  # loads YAML

        load_selectors(root, errors)
    texts = [read_text(root, name, Errors()) or "" for name in (PROJECT_FILE, LOCAL_FILE)]
    if any("format" in text for text in texts):
        from sqb.operations.format import load_format_settings  # loads the lexer

        load_format_settings(root, errors)
    if any("lint" in text for text in texts) or (root / "lint").is_dir():
        from sqb.operations.inspect.lint import load_rules  # loads the lexer, and the project's own rules

        load_rules(root, errors)
    return errors.found


def _open_project(opening: Opening, options: ValidateOptions) -> _Opened:
    """The project; where files are broken, with stand-ins for these, so that the others are looked at too."""
    root = find_root(opening.start)
    reported: tuple[SqbError, ...] = ()
    stand_ins: dict[str, StandIn] = {}
    compiled: BuildEnvironment | None = None
    for _ in range(_MAX_ROUNDS):
        try:
            environment = open_environment(_open_with(root, opening, stand_ins), options.virtual_env)
            # A table that the lake does not have keeps the lake from being observed, and says nothing of the query.
            compiled = compiled or environment
            seen = _observe(environment.observe, environment.workspace)
            return _Opened(compiled, compiled.workspace, seen, reported)
        except SqbError as error:
            result = flatten(error)
        # A file that has no stand-in is read again, and says the same again.
        known = {(e.key(), e.message) for e in reported}
        new = (e for e in result if (e.key(), e.message) not in known)
        reported = (*reported, *drop_doubtful(new, stand_ins))
        more = find_stand_ins(root, result, stand_ins)
        if not more or any(error.at is None for error in result):
            break
        stand_ins |= more
    raise _join(reported)


def drop_doubtful(errors: Iterable[SqbError], stand_ins: Mapping[str, StandIn]) -> list[SqbError]:
    """The errors without those that there may only be because files are broken."""
    # Without its header, a model may be called otherwise, and is missed by those who call it.
    is_vague = any(stand_in.is_vague for stand_in in stand_ins.values())
    # Nor is it known what broken queries read.
    files = {path for path, stand_in in stand_ins.items() if not stand_in.has_query}
    models = tuple(f"{_name_model(path)} " for path in files)

    def is_doubtful(error: SqbError) -> bool:
        if isinstance(error, BadLookup):
            return is_vague or (error.at is not None and error.at.file in files)
        return isinstance(error, ReferenceProblem) and (is_vague or error.message.startswith(models))

    return [error for error in errors if not is_doubtful(error)]


def _name_model(path: str) -> str:
    *folders, name = path.removeprefix("models/").removesuffix(".sql").split("/")
    return f"{'_'.join(folders) or 'default'}.{name}"


def _open_with(root: Path, opening: Opening, stand_ins: Mapping[str, StandIn]) -> Workspace:
    if not stand_ins:
        return open_workspace(opening.start, opening.target, opening.variables)
    from sqb.sql.analysis.cache import AnalysisCache  # an unchanged project is served without the parser

    analyses = AnalysisCache(root / ".sqb" / "cache" / "queries.json", compute_code_stamp())
    with read_unsaved({root / path: stand_in.text for path, stand_in in stand_ins.items()}):
        workspace = compile_workspace(root, opening.target, analyses, opening.variables)
    return forget_columns(workspace, stand_ins)


def forget_columns(workspace: Workspace, stand_ins: Mapping[str, StandIn]) -> Workspace:
    """The project in which nothing is known of the columns of the models in broken files."""
    project = workspace.project
    files = {file for file, stand_in in stand_ins.items() if not stand_in.has_query}
    nodes = {
        name: replace(node, unread=BROKEN) if any(file in files for file in _list_files(node)) else node
        for name, node in project.nodes.items()
    }
    tests = tuple(test for test in project.tests if project.nodes[test.model].file not in files)
    return replace(workspace, project=replace(project, nodes=nodes, tests=tests))


def _list_files(node: Node) -> tuple[str, ...]:
    """The files that a node is made of: beside a seed there may be one about its columns."""
    return list_seed_files(node.file) if node.type == "seed" else (node.file,)


def find_stand_ins(root: Path, errors: Iterable[SqbError], before: Mapping[str, StandIn]) -> dict[str, StandIn]:
    """What is read in the place of broken files, where that is not what was read in their place `before`."""
    more: dict[str, StandIn] = {}
    by_file: dict[str, list[SqbError]] = {}
    for error in errors:
        if error.at is not None:
            by_file.setdefault(error.at.file, []).append(error)
    for path in by_file.keys() | _list_seed_settings(root, by_file):
        if path not in before and (whole := _leave_checks_out(root, path, by_file.get(path, ()))) is not None:
            more[path] = whole
            continue
        stand_in = _find_stand_in(root, path)
        if path in before and not before[path].has_query and stand_in is not None and path.startswith("models/"):
            # It is the header that is wrong.
            stand_in = StandIn(_STAND_IN, is_vague=_may_be_renamed(stand_in.text))
        if stand_in is not None and stand_in != before.get(path):
            more[path] = stand_in
    return more


def _leave_checks_out(root: Path, path: str, errors: Sequence[SqbError]) -> StandIn | None:
    """A model without those of its checks that are wrong, where nothing else is wrong; all places stay."""
    text = read_text(root, path, Errors()) if path.startswith("models/") and errors else None
    if text is None or not all(isinstance(error, CheckProblem) for error in errors):
        return None
    lines = text.split("\n")
    places = {error.at for error in errors if error.at is not None and error.at.line}
    for at in sorted(places, key=lambda place: (place.line, place.column)):
        line, start, end = lines[at.line - 1], at.column - 1, at.column - 1 + at.length
        if line.lstrip().startswith("--"):
            lines[at.line - 1] = line.replace("@", " ", 1)
            continue
        # An entry of a list in `MODEL (…)`, with the comma after it or before it.
        rest, before = line[end:], line[:start].rstrip()
        if rest.lstrip().startswith(","):
            rest = rest.replace(",", " ", 1)
        elif before.endswith(","):
            before = before[:-1]
        lines[at.line - 1] = before.ljust(end) + rest
    stand_in = StandIn("\n".join(lines), has_query=True)
    return stand_in if _is_readable(path, stand_in) else None


def _list_seed_settings(root: Path, broken: Iterable[str]) -> set[str]:
    """The files about the columns of broken seeds: they name columns that a stand-in does not have."""
    seeds = [path for path in broken if path.startswith("seeds/") and path.endswith(".csv")]
    return {file for seed in seeds for file in list_seed_files(seed)[1:] if is_there(root / file)}


def _may_be_renamed(text: str) -> bool:
    return any(word in text for word in ("schema", "alias"))


def _find_stand_in(root: Path, path: str) -> StandIn | None:
    if path.startswith(_OPTIONAL) or (path.startswith("seeds/") and not path.endswith(".csv")):
        return StandIn("")
    if path.startswith("sources/"):
        # What it declares is missed by those who read it.
        return StandIn("", is_vague=True)
    if path.startswith("seeds/"):
        return StandIn("unknown_column\n")
    if not path.startswith("models/"):
        return None
    text = read_text(root, path, ignored := Errors())
    if text is None:
        return StandIn(_STAND_IN)
    header = parse_header(text, path, ignored)
    whole = StandIn(f"{text[: header.body_start]}\n{_STAND_IN}")
    if not ignored.found and find_jinja(text) is None and _is_readable(path, whole):
        return whole
    return StandIn(_STAND_IN, is_vague=_may_be_renamed(text))


def _is_readable(path: str, stand_in: StandIn) -> bool:
    """Whether what is kept of a model's header is right by itself."""
    errors = Errors()
    for name, setting in parse_header(stand_in.text, path, errors).settings.items():
        normalize_setting(KEYS[name], setting, errors)
    return not errors.found


def _join(problems: Sequence[SqbError]) -> SqbError:
    errors = Errors()
    for error in problems:
        errors.add(error)
    try:
        errors.raise_any()
    except SqbError as error:
        return error
    raise AssertionError("there is an error")


def _observe(observe: Callable[[Workspace], LakeState], workspace: Workspace) -> LakeState:
    """The lake, or nothing of it where it cannot be reached: then only seeds have columns that are known."""
    try:
        return observe(workspace)
    except LakeError:
        return LakeState(Observed({}), {})
