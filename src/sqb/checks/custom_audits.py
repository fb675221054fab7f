"""Custom audits: `audits/<name>.sql`, a query whose rows are the violations.

In the file, `@@this` is the relation that is checked and `@@name` an argument of the call; other variables, macros and
names of relations mean what they mean in models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sqb.checks.arguments import BadArgument
from sqb.checks.model import WHOLE, Check, RelationRead, RelationSlot, Role, Severity, Template, Violations
from sqb.errors.base import Errors
from sqb.errors.project import BadAudit, Substitution
from sqb.light_dataclass import dataclass
from sqb.names import At, locate_offset, suggest_nearest
from sqb.project.values import Call
from sqb.sql.analysis.query import Query, QueryProblem
from sqb.sql.text.expand import Expanded, ExpansionContext, ExpansionProblem, expand
from sqb.sql.text.lexer import tokenize
from sqb.sql.text.spans import Reference, fill_references

_THIS = "@@this"
_DIRECTIVE = re.compile(r"--[ \t]*@([A-Za-z_]\w*)[ \t]*:?[ \t]*(.*)")
_KEYS = ("severity", "description")
_MARK = re.compile("\0(\\d+)\0")

ReadQuery = Callable[[str, Mapping[int, str]], Query]
AuditArguments = tuple[Sequence[str], Mapping[str, str], Severity | None]


@dataclass(frozen=True, slots=True)
class CustomAudit:
    """A file in `audits/`: its header, and where its query begins in its text."""

    name: str
    file: str
    text: str
    body_start: int
    severity: Severity = "error"
    description: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the query uses, without `@@`; those that are not the project's are its arguments."""
        names = (t.text[2:] for t in tokenize(self.text, self.body_start) if t.kind == "variable")
        return tuple(dict.fromkeys(name for name in names if name.lower() != "this" and not name.startswith("ENV:")))


def normalize_audit_name(written: str) -> str:
    """The name under which an audit is found, in any case."""
    return written.lower()


def read_custom_audits(texts: Mapping[str, str], built_in: Iterable[str], errors: Errors) -> dict[str, CustomAudit]:
    """The audits in the files of `audits/` (path to text), by name; headers that are wrong are reported."""
    audits: dict[str, CustomAudit] = {}
    reserved = {word.lower() for word in built_in}
    for path, text in texts.items():
        name = path.rpartition("/")[2].removesuffix(".sql")
        key = normalize_audit_name(name)
        if key in reserved:
            errors.add(BadAudit(f'there is a check called "{name}" already', at=At(path), hint="rename the file"))
        elif key in audits:
            errors.add(BadAudit(f'the audit "{name}" is also in {audits[key].file}', at=At(path), hint="rename one"))
        elif not re.fullmatch(r"[A-Za-z_]\w*", name):
            errors.add(BadAudit(f'"{name}" cannot be the name of an audit', at=At(path), hint="use letters and _"))
        else:
            audits[key] = _parse_header(name, path, text, errors)
    return audits


def _parse_header(name: str, path: str, text: str, errors: Errors) -> CustomAudit:
    settings: dict[str, str] = {}
    start = 0
    for token in tokenize(text):
        directive = _DIRECTIVE.fullmatch(token.text) if token.kind == "comment" else None
        if token.kind != "comment":
            break
        if directive is None:
            continue
        at = locate_offset(text, token.start, path, len(token.text))
        key, value = directive[1].lower(), directive[2].strip()
        if key not in _KEYS:
            hint = suggest_nearest(key, _KEYS) or f"an audit may say {' and '.join(_KEYS)}"
            errors.add(BadAudit(f"`{directive[1]}` has no meaning in an audit", at=at, hint=hint))
        elif key == "severity" and value.lower() not in ("error", "warn"):
            errors.add(BadAudit(f'there is no severity "{value}"', at=at, hint="a severity is error or warn"))
        elif key in settings:
            errors.add(BadAudit(f"`{key}` is given twice", at=at, hint="keep one of the two"))
        settings.setdefault(key, value)
        start = token.end
    severity: Severity = "warn" if settings.get("severity", "").lower() == "warn" else "error"
    return CustomAudit(name, path, text, start, severity, settings.get("description", ""))


def build_custom_check(
    audit: CustomAudit,
    role: Role,
    call: Call,
    arguments: AuditArguments,
    words: ExpansionContext,
    read: ReadQuery,
    environment: dict[str, str],
) -> Check:
    """Build the check that a call of a custom audit means."""
    positional, named, severity = arguments
    if positional:
        raise BadArgument(f"`{positional[0]}` has no name", f"write {audit.name}(name => value)")
    _refuse_other_names(audit, named, words)
    expanded, query = _expand_audit(audit, named, words, read)
    environment.update(expanded.environment)
    reads = tuple(
        RelationRead(slot.name, _locate(audit, expanded, slot.start, len(slot.name)), kind=slot.kind)
        for slot in query.slots
        if slot.name.lower() != _THIS
    )
    if len(reads) == len(query.slots):
        raise BadAudit(
            f"the audit {audit.name} never reads @@this, the relation that it is to check",
            at=At(audit.file),
            hint="select the violating rows FROM @@this",
        )
    named_text = ", ".join(f"{name} => {value}" for name, value in named.items())
    return Check(
        role,
        audit.name,
        f"{call.name.lower()}({named_text})",
        call.at,
        Violations(_build_template(query)),
        severity or audit.severity,
        reads=reads,
        files=(audit.file,),
        description=audit.description,
        call=call,
        facts={"canonical": list(query.canonical), **({"python": dict(expanded.python)} if expanded.python else {})},
    )


def refuse_wrong_sql(
    audits: Mapping[str, CustomAudit], words: ExpansionContext, read: ReadQuery, errors: Errors
) -> None:
    """Report audits whose SQL does not parse, also those that no model calls yet."""
    for audit in audits.values():
        # An argument may stand for a value or for a name; only what is wrong either way is surely wrong.
        problems: list[BadAudit] = []
        for stand_in in ("1", "`x`"):
            try:
                _expand_audit(audit, dict.fromkeys(map(str.lower, audit.variables), stand_in), words, read)
                break
            except BadAudit as problem:
                problems.append(problem)
        else:
            errors.add(problems[0])


def _refuse_other_names(audit: CustomAudit, named: Mapping[str, str], words: ExpansionContext) -> None:
    variables = {name.lower(): name for name in audit.variables}
    for name in named:
        if name not in variables:
            takes = ", ".join(f"{v} => …" for v in audit.variables if words.variable(v) is None)
            hint = suggest_nearest(name, variables) or f"write {audit.name}({takes})"
            raise BadArgument(f"{audit.file} does not use @@{name}", hint)
    for lowered, name in variables.items():
        if lowered not in named and words.variable(name) is None:
            raise BadArgument(f"the argument `{name}` is missing", f"write {audit.name}({name} => …)")


def _expand_audit(
    audit: CustomAudit, named: Mapping[str, str], words: ExpansionContext, read: ReadQuery
) -> tuple[Expanded, Query]:
    def variable(name: str) -> str | None:
        if name.lower() == "this":
            return f"`{_THIS}`"
        # The spaces keep `10-@@n` from becoming the comment `10--5`.
        return f" {named[name.lower()]} " if name.lower() in named else words.variable(name)

    try:
        expanded = expand(audit.text, audit.body_start, replace(words, variable=variable))
    except ExpansionProblem as problem:
        at = locate_offset(audit.text, problem.start, audit.file, problem.end - problem.start)
        if problem.kind == "substitution":
            raise Substitution(problem.message, at=at, hint=problem.hint) from problem
        message = problem.message
        if problem.kind.startswith("unknown"):
            message = f"{audit.text[problem.start : problem.end]} has no meaning"
        raise BadAudit(message, at=at, hint=problem.hint) from problem
    try:
        return expanded, read(expanded.text, expanded.forced)
    except QueryProblem as problem:
        at = _locate(audit, expanded, problem.start, problem.end - problem.start)
        message = problem.message.replace("a model is one SELECT", "an audit is one SELECT")
        hint = "write a SELECT of the violating rows" if problem.kind != "parse" else problem.hint
        raise BadAudit(message, at=at, hint=hint) from problem


def _locate(audit: CustomAudit, expanded: Expanded, offset: int, length: int) -> At:
    start = min(expanded.trace_origin(offset), max(0, len(audit.text.rstrip()) - 1))
    return locate_offset(audit.text, start, audit.file, max(1, length))


def _build_template(query: Query) -> Template:
    marked, _ = fill_references(
        query.runnable.rstrip().rstrip(";"), query.slots, {i: f"\0{i}\0" for i in range(len(query.slots))}
    )
    parts: list[str | RelationSlot] = []
    for index, part in enumerate(_MARK.split(marked)):
        parts.append(part if index % 2 == 0 else _build_slot(query.slots[int(part)]))
    return Template(tuple(parts))


def _build_slot(slot: Reference) -> RelationSlot:
    return WHOLE if slot.name.lower() == _THIS else RelationSlot("relation", slot.name)
