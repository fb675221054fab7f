"""Errors in what people wrote: project files, names, SQL, functions, checks (`SQB-P…`, `-R…`, `-S…`, `-F…`, `-K0…`)."""

from __future__ import annotations

from sqb.errors.base import SqbError


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


class BadPackage(ProjectError):
    """A package under `[packages]` is not installed, has another version, or has nothing to use."""

    code = "SQB-P020"


class UnknownVariable(ProjectError):
    """`@@name` has no value in `[vars]` or `--vars`, or `@@ENV:NAME` is not set."""

    code = "SQB-P015"


class BadCursor(ProjectError):
    """The `cursor` of a model is not in its query, or `__cursor_start()` is used where there is no cursor."""

    code = "SQB-P016"


class BadLookup(ProjectError):
    """A table that `lookups` names is not read as a lookup."""

    code = "SQB-P017"


class Substitution(ProjectError):
    """`${…}` is used in SQL outside of strings: neither sqb nor Spark replaces it."""

    code = "SQB-P018"


class Jinja(ProjectError):
    """A model holds Jinja, as dbt's models do: sqb has words of its own for it, and runs none."""

    code = "SQB-P019"


class ReferenceProblem(ProjectError):
    """A name or reference in the project is wrong."""

    code = "SQB-R000"


class DuplicateRelation(ReferenceProblem):
    """Two nodes would be written to one relation."""

    code = "SQB-R001"


class UnknownReference(ReferenceProblem):
    """A table name in a query is not a model, seed, declared source or table of the catalog."""

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


class BadRename(ReferenceProblem):
    """A model says that it was renamed, and what it was called before belongs to something else too."""

    code = "SQB-R007"


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
    """A custom audit, in `audits/`, is wrong: its SQL, its header or its name."""

    code = "SQB-K006"


class GoldenMissing(CheckProblem):
    """The file of a `golden` check is not there, or is not in `golden/`."""

    code = "SQB-K007"


class BadHook(SqlProblem):
    """A hook is not one statement that may run around a model."""

    code = "SQB-S005"
