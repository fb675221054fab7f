"""Every error that a user can meet, as one tree.

    SqbError
    ├── CallError          SQB-C…  the command line was used wrongly                 exit 2
    ├── ProjectError       SQB-P…  a project file is wrong                           exit 2
    │   ├── ReferenceProblem SQB-R…  names, references, cycles, relations              exit 2
    │   ├── SqlProblem       SQB-S…  a model's SQL is wrong                            exit 2
    │   ├── FunctionProblem  SQB-F…  a function is written or called wrongly           exit 2
    │   ├── PythonProblem    SQB-N0… a Python node is written wrongly (errors_python)  exit 2
    │   └── CheckProblem     SQB-K0… a check is written wrongly                        exit 2
    ├── LakeError          SQB-L…  the catalog or the storage said no                exit 1 or 2
    ├── EngineError        SQB-E…  Java, Spark or its jars are missing or do not fit exit 1
    ├── SourceError        SQB-D…  a source cannot be observed or read               exit 1 or 2
    ├── UnitTestFailed     SQB-T…  a unit test of a model does not hold              exit 1
    └── BuildError         SQB-B…  one node failed while it ran                      exit 1
        └── CheckFailed      SQB-K1… a check does not hold                             exit 1

A class is one code; its docstring is the opening of the page docs/errors/<code>.md. An error is a value: a
message, a place in a file where there is one, and a hint that says the way out. It never holds markup and is never
printed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from sqb.names import At


class SqbError(Exception):
    """The root of all errors that sqb explains to its user."""

    code: ClassVar[str] = ""

    def __init__(
        self, message: str, *, at: At | None = None, hint: str | None = None, evidence: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint
        # Lines that show what is meant, such as rows; they stand below the place.
        self.evidence = tuple(evidence)

    def __str__(self) -> str:
        place = f"{self.at}: " if self.at else ""
        return f"error[{self.code}]: {place}{self.message}"

    def key(self) -> tuple[str, int, int, str]:
        """What sorts errors as a reader goes through files."""
        at = self.at or At("")
        return (at.file, at.line, at.column, self.code)


class SqbErrors(SqbError):
    """Several errors found in one go; all of them are shown."""

    code = "SQB-0000"

    def __init__(self, errors: Iterable[SqbError]) -> None:
        self.errors: Sequence[SqbError] = sorted(errors, key=SqbError.key)
        super().__init__("\n".join(str(e) for e in self.errors))


def flatten(error: SqbError) -> Sequence[SqbError]:
    """The single errors in an error."""
    return error.errors if isinstance(error, SqbErrors) else (error,)


class Errors:
    """Collects errors so that all of a project's are reported at once."""

    def __init__(self) -> None:
        self.found: list[SqbError] = []

    def add(self, error: SqbError) -> None:
        self.found.extend(flatten(error))

    def raise_any(self) -> None:
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise SqbErrors(self.found)


class CallError(SqbError):
    """The command line was used in a way it does not offer."""

    code = "SQB-C001"


class NoProject(CallError):
    """No `sqlbuild_project.toml` in the folder or above it."""

    code = "SQB-C002"


class BadSelector(CallError):
    """A `--select` or `--exclude` term names nothing in the project, or has a form that does not exist."""

    code = "SQB-C003"


class UnknownTarget(CallError):
    """`--target` names a target that the project does not have."""

    code = "SQB-C004"


class InitRefused(CallError):
    """`sqb init` was pointed at a folder that already holds something."""

    code = "SQB-C005"


class NotBuilt(CallError):
    """`sqb diff` was asked about something that is not built."""

    code = "SQB-C006"


class NoSuchSnapshot(CallError):
    """`--snapshot` or `--to-snapshot` names no snapshot of the table, or more than one."""

    code = "SQB-C007"


class ProjectError(SqbError):
    """A project file is wrong."""

    code = "SQB-P000"


class BadToml(ProjectError):
    """A TOML file does not parse."""

    code = "SQB-P001"


class UnknownKey(ProjectError):
    """A key that does not exist, in a TOML file, a YAML file or a model's header."""

    code = "SQB-P002"


class BadValue(ProjectError):
    """A value of the wrong type or outside what the key allows."""

    code = "SQB-P003"


class MissingKey(ProjectError):
    """A key that must be there is missing."""

    code = "SQB-P004"


class DuplicateKey(ProjectError):
    """A key is given twice, or in two spellings at once."""

    code = "SQB-P005"


class Contradiction(ProjectError):
    """Two settings cannot both hold."""

    code = "SQB-P006"


class BadHeader(ProjectError):
    """A model's header (`-- @key: value` lines or a `MODEL (…)` block) does not parse."""

    code = "SQB-P007"


class UnknownKind(ProjectError):
    """A model's `kind` is not one that exists."""

    code = "SQB-P008"


class NotYet(ProjectError):
    """A setting that is designed but that this version does not carry out; it is refused rather than ignored."""

    code = "SQB-P009"


class BadYaml(ProjectError):
    """A YAML file does not parse or does not have the shape it must have."""

    code = "SQB-P010"


class BadSeed(ProjectError):
    """A seed file cannot be read: ragged rows, a duplicate or empty header, an encoding that is not UTF-8."""

    code = "SQB-P011"


class BadSeedValue(ProjectError):
    """A value in a seed does not fit the type that the seed's `.yml` declares."""

    code = "SQB-P012"


class Unreadable(ProjectError):
    """A project file cannot be read: permissions, a broken link, or not UTF-8."""

    code = "SQB-P013"


class BadMacro(ProjectError):
    """A macro module does not load, or a macro fails, is unknown or returns something other than text."""

    code = "SQB-P014"


class UnknownVariable(ProjectError):
    """`@@name` has no value in `[vars]` or `--vars`, or `@@ENV:NAME` is not set."""

    code = "SQB-P015"


class BadCursor(ProjectError):
    """The `cursor` of a model is not in its query, or `__cursor_start()` stands where there is no cursor."""

    code = "SQB-P016"


class BadLookup(ProjectError):
    """A table that `lookups` names is not read as a lookup."""

    code = "SQB-P017"


class Substitution(ProjectError):
    """`${…}` stands in SQL outside of strings: sqb replaces it by nothing, and Spark is told not to."""

    code = "SQB-P018"


class ReferenceProblem(ProjectError):
    """A name or reference in the project is wrong."""

    code = "SQB-R000"


class DuplicateRelation(ReferenceProblem):
    """Two nodes would be written to one relation."""

    code = "SQB-R001"


class UnknownReference(ReferenceProblem):
    """A table name in a query is no model, seed, declared source or table of the catalog."""

    code = "SQB-R002"


class AmbiguousReference(ReferenceProblem):
    """A bare name fits several models; write `folder.name`."""

    code = "SQB-R003"


class Cycle(ReferenceProblem):
    """Models read each other in a circle."""

    code = "SQB-R004"


class SelfReference(ReferenceProblem):
    """A model reads the relation that it builds."""

    code = "SQB-R005"


class BadName(ReferenceProblem):
    """A file, folder, schema or alias makes a name that a relation cannot have."""

    code = "SQB-R006"


class SqlProblem(ProjectError):
    """A model's SQL is wrong."""

    code = "SQB-S000"


class EmptyModel(SqlProblem):
    """A model file holds no query."""

    code = "SQB-S001"


class ManyStatements(SqlProblem):
    """A model file holds more than one statement."""

    code = "SQB-S002"


class NotASelect(SqlProblem):
    """A model file holds something other than a SELECT."""

    code = "SQB-S003"


class BadSql(SqlProblem):
    """A model's SQL does not parse."""

    code = "SQB-S004"


class FunctionProblem(ProjectError):
    """A function of the project is written or called wrongly."""

    code = "SQB-F000"


class BadFunction(FunctionProblem):
    """A file in `functions/` does not hold a function that can be used."""

    code = "SQB-F001"


class BadCall(FunctionProblem):
    """A function of the project is called with arguments that it does not take."""

    code = "SQB-F002"


class FunctionCycle(FunctionProblem):
    """Functions call each other in a circle."""

    code = "SQB-F003"


class BadPython(FunctionProblem):
    """A Python file in `functions/` cannot be loaded, or does not say what its functions return."""

    code = "SQB-F004"


class CheckProblem(ProjectError):
    """A check is written wrongly."""

    code = "SQB-K000"


class UnknownCheck(CheckProblem):
    """A check that does not exist, neither in the catalogue nor in `audits/`."""

    code = "SQB-K001"


class CheckNotThere(CheckProblem):
    """A check that exists, but not under this key."""

    code = "SQB-K002"


class BadCheckArguments(CheckProblem):
    """A check's arguments are too few, too many, or not what it takes."""

    code = "SQB-K003"


class CheckColumnMissing(CheckProblem):
    """A check on a column that the model's result does not have."""

    code = "SQB-K004"


class CheckColumnType(CheckProblem):
    """A check on a column whose type it cannot work on."""

    code = "SQB-K005"


class BadAudit(CheckProblem):
    """An audit of one's own, in `audits/`, is wrong: its SQL, its header or its name."""

    code = "SQB-K006"


class GoldenMissing(CheckProblem):
    """The file of a `golden` check is not there, or is not in `golden/`."""

    code = "SQB-K007"


class BadHook(SqlProblem):
    """A hook is not one statement that may run around a model."""

    code = "SQB-S005"


class LakeError(SqbError):
    """The catalog or the storage beneath it refused."""

    code = "SQB-L000"


class NotACatalog(LakeError):
    """The catalog file exists but is not an Iceberg catalog database."""

    code = "SQB-L001"


class LakeUnreadable(LakeError):
    """The lake's folder or files cannot be read or written: permissions, or a folder that is not there."""

    code = "SQB-L002"


class LakeMoved(LakeError):
    """The catalog points to files of another folder: the project was moved or copied."""

    code = "SQB-L003"


class LakeFull(LakeError):
    """No space left where the lake is."""

    code = "SQB-L004"


class LakeDamaged(LakeError):
    """The catalog points to a metadata file that is missing or is not one."""

    code = "SQB-L005"


class CatalogUnreachable(LakeError):
    """The catalog's server does not answer."""

    code = "SQB-L006"


class Conflict(LakeError):
    """The table moved since the build looked at it: another build or a write by hand. Nothing was overwritten."""

    code = "SQB-L007"


class CommitUnknown(LakeError):
    """The catalog did not say whether a commit took place; the next build looks and goes on from what is there."""

    code = "SQB-L008"


class UnsupportedType(LakeError):
    """A column's type cannot be stored in an Iceberg table."""

    code = "SQB-L009"


class NewerState(LakeError):
    """State was written by a newer version of sqb than this one."""

    code = "SQB-L010"


class JanitorBusy(LakeError):
    """Another `sqb janitor` is at work in this lake."""

    code = "SQB-L011"


class EngineError(SqbError):
    """Spark cannot be used."""

    code = "SQB-E000"


class NoJava(EngineError):
    """No Java was found, or one that Spark does not run on."""

    code = "SQB-E001"


class SparkDidNotStart(EngineError):
    """Spark's process ended or did not answer while it was starting."""

    code = "SQB-E002"


class JarsUnavailable(EngineError):
    """The Iceberg jars are not cached and cannot be fetched."""

    code = "SQB-E003"


class SparkLost(EngineError):
    """Spark's process ended in the middle of a build."""

    code = "SQB-E004"


class BuildError(SqbError):
    """A node failed while it ran."""

    code = "SQB-B000"


class QueryFailed(BuildError):
    """Spark refused the query or failed while it ran it."""

    code = "SQB-B001"


class DuplicateColumn(BuildError):
    """The query's result has two columns with one name."""

    code = "SQB-B002"


class Interrupted(BuildError):
    """The build was stopped by Ctrl-C or a signal; what had been published stays, nothing is half done."""

    code = "SQB-B003"


class KeyViolation(BuildError):
    """The `unique_key` of a model is NULL in a row, or has more than one row. Nothing was published."""

    code = "SQB-B004"


class KeyMissing(BuildError):
    """`unique_key` or `group_key` names a column that the query's result does not have."""

    code = "SQB-B005"


class SchemaRefused(BuildError):
    """The columns of a model changed, and its `on_schema_change` does not allow that."""

    code = "SQB-B006"


class CheckFailed(BuildError):
    """Rows do not hold what a check asks of them. Nothing was published."""

    code = "SQB-K101"
    # What was found, for programs: the check, its place, how many rows violate it and some of them.
    finding: Mapping[str, Any] | None = None


class CheckNotEvaluated(CheckFailed):
    """Spark failed while it evaluated a check, so that nobody knows whether it holds. Nothing was published."""

    code = "SQB-K102"


class UnitTestFailed(SqbError):
    """A model gave other rows than its unit test expects."""

    code = "SQB-T001"


class UnknownTestColumn(UnitTestFailed):
    """A unit test names a column that the table, the result or the CTE does not have."""

    code = "SQB-T002"


class InputNotGiven(UnitTestFailed):
    """A unit test gives no rows of a table that its model reads, and nobody knows the columns of that table."""

    code = "SQB-T003"


class UnfitTestValue(UnitTestFailed):
    """A value in a unit test cannot be one of its column's type."""

    code = "SQB-T004"


class TooManyTestRows(UnitTestFailed):
    """The result of a unit test has more rows than are compared."""

    code = "SQB-T005"


class HookFailed(BuildError):
    """Spark refused a statement of `pre_hooks` or `post_hooks`, or failed while it ran it."""

    code = "SQB-B007"


class ContractBroken(BuildError):
    """The columns of a model's result are not those of its `contract`. Nothing was written."""

    code = "SQB-B008"


class CursorUnfit(BuildError):
    """A cursor that is not in the result or of another type, or whose grain is too fine. Nothing was published."""

    code = "SQB-B009"


class DataLoss(BuildError):
    """A full replay would lose rows that the sources do not reach any more. Nothing was published."""

    code = "SQB-B012"


class RowsUnfit(BuildError):
    """Rows that a loader gave cannot be written to its source's table. Nothing was published."""

    code = "SQB-B010"


class SourceError(SqbError):
    """A source cannot be observed."""

    code = "SQB-D000"


class SourceGone(UnknownReference):
    """The files of a declared source are not there."""

    code = "SQB-D001"


class FreshnessUnknown(SourceError):
    """Nobody can tell how fresh a source is: the question fails, or its answer is not one value. Nothing was run."""

    code = "SQB-D002"


class ClockBackwards(SourceError):
    """The clock of this machine is behind what was recorded before. Nothing was run."""

    code = "SQB-D003"


class FilesMoved(BuildError):
    """Files of a source vanished or changed while they were read. Nothing was published."""

    code = "SQB-D004"


class FilesUnreadable(BuildError):
    """Spark cannot read the files of a source as its declaration says."""

    code = "SQB-D005"


class InternalError(SqbError):
    """A mistake in sqb itself."""

    code = "SQB-X001"
