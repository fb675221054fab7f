"""Hooks: the SQL statements before and after a model, expanded, with the names of relations in them resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqb.compile.model import Hook, When
from sqb.errors.base import Errors
from sqb.errors.project import BadHook, ProjectError
from sqb.light_dataclass import dataclass
from sqb.names import At, Relation
from sqb.project.config.connections.model import SUBSTITUTION
from sqb.project.values import Setting, Statement
from sqb.sql.analysis.query import compute_canonical
from sqb.sql.text.expand import Expanded, ExpansionContext, ExpansionProblem, expand
from sqb.sql.text.fallback import find_name_places, find_unpaired_bracket
from sqb.sql.text.keywords import SESSION_STATEMENTS, STATEMENT_STARTS
from sqb.sql.text.lexer import Token, tokenize_code
from sqb.sql.text.spans import Reference, strip_scope
from sqb.sql.text.table_names import DynamicName, find_references

WHENS: tuple[When, ...] = ("pre", "post")
_THIS = "@@this"
_SETTING = re.compile(r"\s*SET\s+[\w.\-`]+\s*=", re.IGNORECASE)

_SUBSTITUTION = re.compile(rf"\s*SET\s+`?{re.escape(SUBSTITUTION)}`?\s*=", re.IGNORECASE)

# What a name in a hook means: its logical name, which is the same in every target, and the relation.
Meaning = tuple[str, Relation] | None


@dataclass(frozen=True, slots=True)
class HookDraft:
    """A hook before the names in it are resolved."""

    when: When
    written: Statement
    expanded: Expanded
    tokens: tuple[Token, ...]
    names: tuple[Reference, ...]

    def locate(self, start: int, end: int) -> At:
        return self.written.locate(self.expanded.trace_origin(start), end - start)


def read_hooks(
    settings: Mapping[str, Setting],
    words: ExpansionContext,
    explain: Callable[[ExpansionProblem, At], ProjectError],
    errors: Errors,
) -> tuple[HookDraft, ...]:
    """The hooks of a model; those that are wrong are reported and left out."""
    # The model's own relation is named by a word that nothing else can be called by.
    with_this = replace(words, variable=lambda name: f"`{_THIS}`" if name == "this" else words.variable(name))
    drafts: list[HookDraft] = []
    for when in WHENS:
        setting = settings.get(f"{when}_hooks")
        for statement in setting.value if setting is not None else ():
            try:
                drafts.append(_read_hook(when, statement, with_this))
            except ExpansionProblem as problem:
                errors.add(explain(problem, statement.locate(problem.start, problem.end - problem.start)))
            except BadHook as problem:
                errors.add(problem)
    return tuple(drafts)


def _read_hook(when: When, statement: Statement, words: ExpansionContext) -> HookDraft:
    expanded = expand(statement.text, 0, words)

    def wrong(message: str, start: int, end: int, hint: str | None = None) -> BadHook:
        return BadHook(message, at=statement.locate(expanded.trace_origin(start), end - start), hint=hint)

    tokens = tokenize_code(expanded.text)
    for token in tokens:
        if token.kind == "broken":
            what = "comment" if token.text.startswith("/*") else token.text[-1]
            raise wrong(f"this {what} is never closed", token.start, token.start + 1)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        raise wrong("there is no statement", 0, len(expanded.text), "write one statement, or remove the hook")
    many = next((t for t in tokens if t.text == ";"), None)
    if many is not None:
        raise wrong("a hook is one statement", many.start, many.end, "write a hook for each statement")
    mistake = find_unpaired_bracket(tokens)
    if mistake is not None:
        raise wrong(mistake.message, mistake.start, mistake.end)
    _refuse_start(tokens[0], expanded.text, wrong)
    try:
        names = find_references(tokens, expanded.forced, statement=True)
    except DynamicName as name:
        raise wrong("IDENTIFIER(…) is not followed here", name.start, name.end, "write the table's name") from name
    return HookDraft(when, statement, expanded, tuple(tokens), _add_this(tokens, strip_scope(names)))


def _refuse_start(first: Token, text: str, wrong: Callable[..., BadHook]) -> None:
    word = first.text.upper()
    if word in SESSION_STATEMENTS or (word == "SET" and _SETTING.match(text[first.start :]) is None):
        raise wrong(
            f"{word} changes the session, which other models share",
            first.start,
            first.end,
            "write SET key = value, which holds for this model alone, or whole names",
        )
    if word == "SET" and _SUBSTITUTION.match(text[first.start :]):
        raise wrong(
            f"{SUBSTITUTION} is always false",
            first.start,
            first.end,
            "use @@name and @@ENV:NAME for what is to be replaced",
        )
    if word not in STATEMENT_STARTS and first.text != "(":
        hint = "a statement that holds commas goes in quotes when it is part of a list"
        raise wrong(f"a statement does not begin with {first.text}", first.start, first.end, hint)


def _add_this(tokens: Iterable[Token], names: Iterable[Reference]) -> tuple[Reference, ...]:
    """All names, and the model's own relation wherever it is."""
    this_references = {t.start: Reference((_THIS,), t.start, t.end) for t in tokens if t.text == f"`{_THIS}`"}
    return tuple(
        sorted(
            [*this_references.values(), *(n for n in names if n.start not in this_references)], key=lambda n: n.start
        )
    )


def link_hooks(
    drafts: Iterable[HookDraft], model_relation: Relation, meaning: Callable[[Reference, At], Meaning]
) -> tuple[tuple[Hook, ...], dict[str, list[str]]]:
    """The hooks with their names resolved, and what of them is identity, by key."""
    hooks: list[Hook] = []
    identity: dict[str, list[str]] = {}
    for draft in drafts:
        known: list[tuple[Reference, str, Relation]] = []
        for name in draft.names:
            meaning_of_name = (
                ("this", model_relation)
                if name.parts == (_THIS,)
                else meaning(name, draft.locate(name.start, name.end))
            )
            if meaning_of_name is not None:
                known.append((name, *meaning_of_name))
        slots = tuple(name for name, _, _ in known)
        hooks.append(
            Hook(
                draft.when,
                draft.expanded.text,
                slots,
                tuple(relation for _, _, relation in known),
                draft.written.text,
                draft.written.at,
                draft.expanded.pieces,
            )
        )
        identity.setdefault(f"{draft.when}_hooks", []).append(
            _canonicalize_hook(draft, slots, [name for _, name, _ in known])
        )
    return tuple(hooks), identity


def _canonicalize_hook(draft: HookDraft, slots: tuple[Reference, ...], logical: list[str]) -> str:
    """A hook's own words with what names mean in braces: white space, comments and the case of keywords are gone."""
    first, *rest = compute_canonical(draft.expanded.text, slots, find_name_places(draft.tokens))
    python = [f"{{{name} {function_hash}}}" for name, function_hash in sorted(draft.expanded.python.items())]
    named = (y for pair in zip(logical, rest, strict=True) for y in _format_braced(*pair))
    return " ".join(x for x in (first, *named, *python) if x)


def _format_braced(logical: str, text: str) -> tuple[str, str]:
    return f"{{{logical}}}", text
