"""Models that call functions: what they run, and what of functions and macros is part of their identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqb import identity
from sqb.compile_functions import Functions
from sqb.compile_materializations import materialization_of
from sqb.compiled import Function, Project
from sqb.project.macros import Macros
from sqb.project.materializations import Materialization
from sqb.resolve import Draft, Resolver, Written, slots_of
from sqb.sql.inline import CallProblem
from sqb.sql.lexer import code
from sqb.sql.query import Query, QueryProblem
from sqb.sql.spans import Reference


def with_functions(draft: Draft, functions: Functions, read: Callable[[str, Mapping[int, str]], Query]) -> Draft:
    """A model with functions in the place of their calls; a `CallProblem` in its expanded text when that fails."""
    assert draft.expanded is not None and draft.query is not None
    found = functions.inlined(draft.expanded)
    if found is None:
        return draft
    before, expanded = draft.expanded.text, found.expanded
    first = functions.analyst.calls(before, functions.names).calls[0]
    python = [name for name in found.functions if name in functions.python]
    if draft.kind == "view" and python:
        raise CallProblem(
            f"a view cannot call {python[0]}, which is a Python function: others who read the view do not have it",
            first.start,
            first.end,
            "make the model a table",
        )
    try:
        query = read(expanded.text, {**expanded.forced, **functions.marks(expanded.text)})
    except QueryProblem as problem:
        message = f"with its functions in place the query cannot be read: {problem.message}"
        raise CallProblem(message, first.start, first.end, problem.hint) from problem
    volatile = ((name, first.start) for name in functions.volatile(found.functions))
    query = replace(query, volatile=(*query.volatile, *volatile))
    return replace(
        draft, expanded=expanded, query=query, written=Written(before, draft.query), functions=found.functions
    )


def references_of(draft: Draft) -> tuple[Reference, ...]:
    """The references of the query that is run, those in functions included."""
    return draft.query.references if draft.query is not None else ()


def used_functions(drafts: Iterable[Draft], functions: Functions) -> tuple[str, ...]:
    """The functions that something in the project uses, directly or not."""
    return tuple(sorted({*(name for draft in drafts for name in draft.functions), *functions.called}))


def written_hash(draft: Draft) -> str:
    """The hash of a query before its macros were expanded; "" when it has none."""
    if draft.expanded is None or not draft.expanded.macros:
        return ""
    start = draft.expanded.pieces[0].origin if draft.expanded.pieces else 0
    return identity.digest("written", *(token.text for token in code(draft.text, start)))


@dataclass(frozen=True, slots=True)
class Identities:
    """What names, functions and macros mean, as hashes."""

    resolver: Resolver
    functions: Functions
    macros: Macros
    materializations: Mapping[str, Materialization]

    def logical_names(self, draft: Draft, reads: Sequence[str], references: Iterable[Reference]) -> list[str]:
        """What each reference means, in words that are the same in every target."""
        meant = self._meant(draft, reads)
        # One name may be that of a model and of a dbt model, and both be read.
        exact = {(slot.name.lower(), slot.kind): read for slot, read in zip(slots_of(draft), reads, strict=True)}
        names = (exact.get((r.name.lower(), r.kind)) or meant[r.name.lower()] for r in references)
        return [self.resolver.logical(name) for name in names]

    def functions_of(self, draft: Draft, reads: Sequence[str]) -> dict[str, str]:
        """The hashes of the functions that a model uses, by name, and of the materialisation that builds it."""
        logical = self._logical(draft, reads)
        found = {name: self.functions.hash(name, logical) for name in sorted(draft.functions)}
        return found | materialization_of(draft, self.materializations)[0]

    def definitions_of(self, draft: Draft, reads: Sequence[str]) -> dict[str, list[object]]:
        """What the hashes of SQL functions were made of, by name."""
        logical = self._logical(draft, reads)
        found = {name: self.functions.definition(name, logical) for name in sorted(draft.functions)}
        return {name: parts for name, parts in found.items() if parts}

    def _logical(self, draft: Draft, reads: Sequence[str]) -> Callable[[str], str]:
        meant = self._meant(draft, reads)
        return lambda name: self.resolver.logical(meant[name.lower()]) if name.lower() in meant else name.lower()

    def _meant(self, draft: Draft, reads: Sequence[str]) -> dict[str, str]:
        return dict(zip((slot.name.lower() for slot in slots_of(draft)), reads, strict=True))

    def macros_of(self, draft: Draft) -> dict[str, str]:
        """The hashes of the macros that a model uses, by name with an @ before it."""
        names = draft.expanded.macros if draft.expanded is not None else ()
        return {f"@{name}": self.macros.hash(name) for name in sorted(names)}

    def compiled(self, project: Project, names: Iterable[str]) -> tuple[Function, ...]:
        """All functions, as the build needs them; those with these names are used."""
        hashes = {name: own for node in project for name, own in node.functions.items()}
        used = set(names)
        found = (
            (name, hashes.get(name) or self.functions.hash(name, str.lower)) for name in sorted(self.functions.names)
        )
        return tuple(replace(self.functions.compiled(name, own), used=name in used) for name, own in found)
