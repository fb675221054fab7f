"""From written calls to checks: what is wrong about one is reported, and the others are read all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from sqb.checks.arguments import Arguments, BadArgument, Lookup
from sqb.checks.catalogue import WORDS, Entry, find_check
from sqb.checks.custom_audits import CustomAudit, build_custom_check, normalize_audit_name
from sqb.checks.model import Check, Role, Severity
from sqb.errors.base import Errors, SqbError
from sqb.errors.project import BadCheckArguments, CheckNotThere, Substitution, UnknownCheck
from sqb.light_dataclass import dataclass
from sqb.names import At, suggest_nearest
from sqb.project.values import Call, Golden, Setting
from sqb.sql.analysis.query import Query, QueryProblem
from sqb.sql.text.expand import Expanded, ExpansionContext, ExpansionProblem, expand
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.spans import Piece

ROLES: Mapping[str, Role] = {"constraints": "constraint", "audits": "audit", "warnings": "warning"}
_KEYS: Mapping[Role, str] = {role: key for key, role in ROLES.items()}
_SEVERITIES: tuple[Severity, ...] = ("error", "warn")


@dataclass(frozen=True, slots=True)
class CheckReader:
    """What reading checks needs of the project: its own audits, its variables and macros, a parser, golden files.

    `environment` collects the environment variables that own audits used, as the project's meaning depends on them.
    """

    audits: Mapping[str, CustomAudit]
    words: ExpansionContext
    query: Callable[[str, Mapping[int, str]], Query]
    columns_of: Callable[[str], tuple[str, ...]]
    golden_file: Callable[[str, At], Golden | None]
    environment: dict[str, str] = field(default_factory=dict)

    def find_columns(self, text: str) -> tuple[str, ...]:
        """The columns that a SQL expression uses."""
        try:
            return self.columns_of(text)
        except QueryProblem as problem:
            raise BadArgument(f"the condition `{text}` cannot be read: {problem.message}", problem.hint) from problem

    def expand_calls(self, text: str) -> tuple[str, Mapping[str, str]]:
        """An expression with the project's functions in it, and the hashes of those that Spark calls."""
        if self.words.inline is None:
            return text, {}
        try:
            expanded = self.words.inline(Expanded(text, (Piece(0, 0, len(text), True),)))
            if not expanded.functions:
                return text, {}
            query = self.query(f"SELECT ({expanded.text}\n)", {})
        except (ExpansionProblem, QueryProblem) as problem:
            raise BadArgument(f"the condition `{text}` cannot be read: {problem.message}", problem.hint) from problem
        # In its canonical form it is the same check however the functions are laid out.
        return expanded.text if query.references else query.canonical[0].removeprefix("SELECT "), expanded.python

    def read_golden(self, file: str, at: At) -> tuple[tuple[str, ...], str]:
        """The columns and the content hash of a golden file."""
        golden = self.golden_file(file, at)
        if golden is None:
            raise AlreadyReported
        return golden.columns, golden.content_hash


class AlreadyReported(Exception):
    """Something is wrong that was already reported at its own place."""


def read_checks(settings: Mapping[str, Setting], reader: CheckReader, errors: Errors) -> tuple[Check, ...]:
    """The checks of a model, from its settings; those that are wrong are reported and left out."""
    calls = [(role, call) for key, role in ROLES.items() if key in settings for call in settings[key].value]
    checks = [read_check(role, call, reader, errors) for role, call in calls]
    return tuple(_drop_repeated(check for check in checks if check is not None))


def _drop_repeated(checks: Iterable[Check]) -> Iterable[Check]:
    """Each check once, the one that was written first: inherited and own settings may name the same."""
    distinct: dict[tuple[str, str, str], Check] = {}
    for check in checks:
        distinct.setdefault((check.role, check.text, check.severity), check)
    return distinct.values()


def read_check(role: Role, call: Call, reader: CheckReader, errors: Errors) -> Check | None:
    """One written call as a check; None when it was reported as wrong."""
    entry = find_check(call.name)
    try:
        call = _expand_call(call, reader)
        if entry is not None:
            return build_catalogue_check(entry, role, call, reader)
        audit = reader.audits.get(normalize_audit_name(call.name))
        if audit is None:
            raise _build_unknown_error(role, call, reader)
        if role == "constraint":
            raise _build_misplaced_error(call, ("audit", "warning"), role)
        positional, named, severity = _split_arguments(call, role)
        return build_custom_check(
            audit, role, call, (positional, named, severity), reader.words, reader.query, reader.environment
        )
    except BadArgument as wrong:
        usage = entry.usage if entry is not None else None
        errors.add(build_arguments_error(call, wrong, usage))
    except AlreadyReported:
        pass
    except SqbError as error:
        errors.add(error)
    return None


def _expand_call(call: Call, reader: CheckReader) -> Call:
    """The call with its variables and macros replaced by what they mean."""
    arguments: list[str] = []
    for text in call.arguments:
        if "@" not in text and "${" not in text:
            arguments.append(text)
            continue
        try:
            expanded = expand(text, 0, replace(reader.words, inline=None))
        except ExpansionProblem as problem:
            if problem.kind == "substitution":
                raise Substitution(problem.message, at=call.at, hint=problem.hint) from problem
            unknown = problem.kind.startswith("unknown")
            message = f"{text[problem.start : problem.end]} has no meaning" if unknown else problem.message
            raise BadArgument(message, problem.hint) from problem
        reader.environment.update(expanded.environment)
        arguments.append(expanded.text.strip())
    return replace(call, arguments=tuple(arguments))


def build_catalogue_check(entry: Entry, role: Role, call: Call, lookup: Lookup) -> Check:
    """A check of the catalogue."""
    if role not in entry.roles:
        raise _build_misplaced_error(call, entry.roles, role)
    positional, named, severity = _split_arguments(call, role)
    if named:
        raise BadArgument(f"`{next(iter(named))}` is not an argument of `{call.name}`")
    arguments = Arguments(positional, call.at, lookup)
    test = entry.read(arguments)
    arguments.refuse_rest()
    return Check(
        role,
        entry.name,
        format_call(call.name, positional),
        call.at,
        test,
        severity or "error",
        tuple(dict.fromkeys(arguments.needs)),
        tuple(arguments.reads),
        tuple(arguments.alike),
        tuple(arguments.patterns),
        tuple(arguments.conditions),
        tuple(arguments.files),
        call=call,
        facts=arguments.facts,
    )


def _split_arguments(call: Call, role: Role) -> tuple[list[str], dict[str, str], Severity | None]:
    """The arguments by position, those by name, and the severity."""
    positional: list[str] = []
    named: dict[str, str] = {}
    for text in call.arguments:
        tokens = tokenize_code(text)
        if len(tokens) < 2 or tokens[0].kind != "word" or tokens[1].text != "=>":
            positional.append(text)
            continue
        name, value = tokens[0].text.lower(), text[tokens[1].end :].strip()
        if name in named:
            raise BadArgument(f"`{name}` is given twice")
        if not value:
            raise BadArgument(f"`{name}` has no value")
        named[name] = value
    severity = named.pop("severity", None)
    if severity is None:
        return positional, named, None
    if role == "warning":
        raise BadArgument("a warning never blocks, so that it has no severity", "make it an audit if it should block")
    for known in _SEVERITIES:
        if severity.lower().strip("'\"") == known:
            return positional, named, known
    raise BadArgument(f"there is no severity `{severity}`", "a severity is error or warn")


def format_call(name: str, arguments: Iterable[str]) -> str:
    """A call as it is shown: white space outside of texts made regular."""
    return f"{name.lower()}({', '.join(map(_normalize_spaces, arguments))})"


def _normalize_spaces(text: str) -> str:
    out, end = [], 0
    for token in tokenize_code(text):
        out.append((" " if token.start > end > 0 else "") + token.text)
        end = token.end
    return "".join(out)


def build_arguments_error(call: Call, wrong: BadArgument, usage: str | None) -> BadCheckArguments:
    """A call whose arguments do not fit."""
    hint = " — ".join(part for part in (wrong.hint, f"write {usage}" if usage else None) if part)
    return BadCheckArguments(f"{call.name}: {wrong.message}", at=call.at, hint=hint or None)


def _build_unknown_error(role: Role, call: Call, reader: CheckReader) -> UnknownCheck:
    fitting = [word for word in WORDS if (entry := find_check(word)) and role in entry.roles]
    audit_names = [] if role == "constraint" else [audit.name for audit in reader.audits.values()]
    hint = suggest_nearest(call.name, [*fitting, *audit_names]) or suggest_nearest(call.name, WORDS)
    return UnknownCheck(
        f"there is no check `{call.name}`",
        at=call.at,
        hint=hint or f"a check of your own is a query in audits/{call.name}.sql, called under `audits`",
    )


def _build_misplaced_error(call: Call, roles: tuple[Role, ...], role: Role) -> CheckNotThere:
    keys = " or ".join(f"`{_KEYS[r]}`" for r in roles)
    return CheckNotThere(
        f"`{call.name}` cannot be {'an' if role == 'audit' else 'a'} {role}",
        at=call.at,
        hint=f"it belongs under {keys}",
    )
