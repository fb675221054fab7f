"""Audits of one's own: `audits/<name>.sql`, a query whose rows are the violations.

In the file, `@@this` is the relation that is checked and `@@name` an argument of the call; other variables, macros and
names of relations mean what they mean in models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqb.checks.arguments import Wrong
from sqb.checks.values import WHOLE, Check, Hole, Read, Role, Severity, Template, Violations
from sqb.errors import BadAudit, Errors
from sqb.names import At, did_you_mean, place
from sqb.project.values import Call
from sqb.sql.expand import Expanded, ExpansionProblem, Words, expand
from sqb.sql.lexer import tokens
from sqb.sql.query import Query, QueryProblem
from sqb.sql.spans import Reference, fill

_THIS = "@@this"
_DIRECTIVE = re.compile(r"--[ \t]*@([A-Za-z_]\w*)[ \t]*:?[ \t]*(.*)")
_KEYS = ("severity", "description")
_MARK = re.compile("\0(\\d+)\0")

ReadQuery = Callable[[str, Mapping[int, str]], Query]
Given = tuple[Sequence[str], Mapping[str, str], Severity | None]


@dataclass(frozen=True, slots=True)
class OwnAudit:
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
        found = (t.text[2:] for t in tokens(self.text, self.body_start) if t.kind == "variable")
        return tuple(dict.fromkeys(name for name in found if name.lower() != "this" and not name.startswith("ENV:")))


def own_name(written: str) -> str:
    """The name under which an audit is found, in any case."""
    return written.lower()


def read_own_audits(texts: Mapping[str, str], built_in: Iterable[str], errors: Errors) -> dict[str, OwnAudit]:
    """The audits in the files of `audits/` (path to text), by name; headers that are wrong are reported."""
    found: dict[str, OwnAudit] = {}
    taken = {word.lower() for word in built_in}
    for path, text in texts.items():
        name = path.rpartition("/")[2].removesuffix(".sql")
        key = own_name(name)
        if key in taken:
            errors.add(BadAudit(f'there is a check called "{name}" already', at=At(path), hint="rename the file"))
        elif key in found:
            errors.add(BadAudit(f'the audit "{name}" is also in {found[key].file}', at=At(path), hint="rename one"))
        elif not re.fullmatch(r"[A-Za-z_]\w*", name):
            errors.add(BadAudit(f'"{name}" cannot be the name of an audit', at=At(path), hint="use letters and _"))
        else:
            found[key] = _header(name, path, text, errors)
    return found


def _header(name: str, path: str, text: str, errors: Errors) -> OwnAudit:
    settings: dict[str, str] = {}
    start = 0
    for token in tokens(text):
        directive = _DIRECTIVE.fullmatch(token.text) if token.kind == "comment" else None
        if token.kind != "comment":
            break
        if directive is None:
            continue
        at = place(text, token.start, path, len(token.text))
        key, value = directive[1].lower(), directive[2].strip()
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"an audit may say {' and '.join(_KEYS)}"
            errors.add(BadAudit(f"`{directive[1]}` has no meaning in an audit", at=at, hint=hint))
        elif key == "severity" and value.lower() not in ("error", "warn"):
            errors.add(BadAudit(f'there is no severity "{value}"', at=at, hint="a severity is error or warn"))
        elif key in settings:
            errors.add(BadAudit(f"`{key}` is given twice", at=at, hint="keep one of the two"))
        settings.setdefault(key, value)
        start = token.end
    severity: Severity = "warn" if settings.get("severity", "").lower() == "warn" else "error"
    return OwnAudit(name, path, text, start, severity, settings.get("description", ""))


def own_audit(
    audit: OwnAudit, role: Role, call: Call, given: Given, words: Words, read: ReadQuery, environment: dict[str, str]
) -> Check:
    """A call of an audit of one's own."""
    positional, named, severity = given
    if positional:
        raise Wrong(f"`{positional[0]}` has no name", f"write {audit.name}(name => value)")
    _refuse_other_names(audit, named, words)
    expanded, query = _expanded(audit, named, words, read)
    environment.update(expanded.environment)
    reads = tuple(
        Read(slot.name, _place(audit, expanded, slot.start, len(slot.name)), kind=slot.kind)
        for slot in query.slots
        if slot.name.lower() != _THIS
    )
    if len(reads) == len(query.slots):
        raise BadAudit(
            f"the audit {audit.name} never reads @@this, the relation that it is to check",
            at=At(audit.file),
            hint="select the violating rows FROM @@this",
        )
    shown = ", ".join(f"{name} => {value}" for name, value in named.items())
    return Check(
        role,
        audit.name,
        f"{call.name.lower()}({shown})",
        call.at,
        Violations(_template(query)),
        severity or audit.severity,
        reads=reads,
        files=(audit.file,),
        description=audit.description,
        call=call,
        facts={"canonical": list(query.canonical), **({"python": dict(expanded.python)} if expanded.python else {})},
    )


def refuse_wrong_sql(audits: Mapping[str, OwnAudit], words: Words, read: ReadQuery, errors: Errors) -> None:
    """Report audits whose SQL does not parse, also those that no model calls yet."""
    for audit in audits.values():
        # An argument may stand for a value or for a name; only what is wrong either way is surely wrong.
        found: list[BadAudit] = []
        for stand_in in ("1", "`x`"):
            try:
                _expanded(audit, dict.fromkeys(map(str.lower, audit.variables), stand_in), words, read)
                break
            except BadAudit as problem:
                found.append(problem)
        else:
            errors.add(found[0])


def _refuse_other_names(audit: OwnAudit, named: Mapping[str, str], words: Words) -> None:
    variables = {name.lower(): name for name in audit.variables}
    for name in named:
        if name not in variables:
            takes = ", ".join(f"{v} => …" for v in audit.variables if words.variable(v) is None)
            hint = did_you_mean(name, variables) or f"write {audit.name}({takes})"
            raise Wrong(f"{audit.file} does not use @@{name}", hint)
    for lowered, name in variables.items():
        if lowered not in named and words.variable(name) is None:
            raise Wrong(f"the argument `{name}` is missing", f"write {audit.name}({name} => …)")


def _expanded(audit: OwnAudit, named: Mapping[str, str], words: Words, read: ReadQuery) -> tuple[Expanded, Query]:
    def variable(name: str) -> str | None:
        if name.lower() == "this":
            return f"`{_THIS}`"
        # The spaces keep `10-@@n` from becoming the comment `10--5`.
        return f" {named[name.lower()]} " if name.lower() in named else words.variable(name)

    try:
        expanded = expand(audit.text, audit.body_start, replace(words, variable=variable))
    except ExpansionProblem as problem:
        at = place(audit.text, problem.start, audit.file, problem.end - problem.start)
        message = problem.message
        if problem.kind.startswith("unknown"):
            message = f"{audit.text[problem.start : problem.end]} has no meaning"
        raise BadAudit(message, at=at, hint=problem.hint) from problem
    try:
        return expanded, read(expanded.text, expanded.forced)
    except QueryProblem as problem:
        at = _place(audit, expanded, problem.start, problem.end - problem.start)
        message = problem.message.replace("a model is one SELECT", "an audit is one SELECT")
        hint = "write a SELECT of the violating rows" if problem.kind != "parse" else problem.hint
        raise BadAudit(message, at=at, hint=hint) from problem


def _place(audit: OwnAudit, expanded: Expanded, offset: int, length: int) -> At:
    start = min(expanded.origin(offset), max(0, len(audit.text.rstrip()) - 1))
    return place(audit.text, start, audit.file, max(1, length))


def _template(query: Query) -> Template:
    marked, _ = fill(query.runnable.rstrip().rstrip(";"), query.slots, {i: f"\0{i}\0" for i in range(len(query.slots))})
    parts: list[str | Hole] = []
    for index, part in enumerate(_MARK.split(marked)):
        parts.append(part if index % 2 == 0 else _hole(query.slots[int(part)]))
    return Template(tuple(parts))


def _hole(slot: Reference) -> Hole:
    return WHOLE if slot.name.lower() == _THIS else Hole("relation", slot.name)
