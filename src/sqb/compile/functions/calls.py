"""Models that call functions: what they run, and what of functions and macros is part of their identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sqb import identity
from sqb.compile.functions.definitions import Functions
from sqb.compile.materializations import link_materialization
from sqb.compile.model import Function, Project
from sqb.compile.resolve import Draft, Resolver, WrittenQuery, list_slots
from sqb.light_dataclass import dataclass
from sqb.project.functions.macros import Macros
from sqb.project.models.materializations import Materialization
from sqb.sql.analysis.query import Query, QueryProblem
from sqb.sql.functions.inline import CallProblem
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.spans import Reference


def inline_functions(draft: Draft, functions: Functions, read: Callable[[str, Mapping[int, str]], Query]) -> Draft:
    """A model with functions in the place of their calls; a `CallProblem` in its expanded text when that fails."""
    assert draft.expanded is not None and draft.query is not None
    inlined = functions.inline_calls(draft.expanded)
    if inlined is None:
        return draft
    before, expanded = draft.expanded.text, inlined.expanded
    first = functions.analyst.calls(before, functions.names).calls[0]
    python = [name for name in inlined.functions if name in functions.python]
    if draft.kind == "view" and python:
        raise CallProblem(
            f"a view cannot call {python[0]}, which is a Python function: others who read the view do not have it",
            first.start,
            first.end,
            "make the model a table",
        )
    try:
        query = read(expanded.text, {**expanded.forced, **functions.find_marks(expanded.text)})
    except QueryProblem as problem:
        message = f"with its functions in place the query cannot be read: {problem.message}"
        raise CallProblem(message, first.start, first.end, problem.hint) from problem
    volatile = ((name, first.start) for name in functions.list_volatile(inlined.functions))
    query = replace(query, volatile=(*query.volatile, *volatile))
    return replace(
        draft, expanded=expanded, query=query, written=WrittenQuery(before, draft.query), functions=inlined.functions
    )


def list_references(draft: Draft) -> tuple[Reference, ...]:
    """The references of the query that is run, those in functions included."""
    return draft.query.references if draft.query is not None else ()


def list_used_functions(drafts: Iterable[Draft], functions: Functions) -> tuple[str, ...]:
    """The functions that something in the project uses, directly or not."""
    return tuple(sorted({*(name for draft in drafts for name in draft.functions), *functions.called}))


def compute_written_hash(draft: Draft) -> str:
    """The hash of a query before its macros were expanded; "" when it has none."""
    if draft.expanded is None or not draft.expanded.macros:
        return ""
    start = draft.expanded.pieces[0].origin if draft.expanded.pieces else 0
    return identity.digest("written", *(token.text for token in tokenize_code(draft.text, start)))


@dataclass(frozen=True, slots=True)
class Identities:
    """What names, functions and macros mean, as hashes."""

    resolver: Resolver
    functions: Functions
    macros: Macros
    materializations: Mapping[str, Materialization]

    def list_logical_names(self, draft: Draft, reads: Sequence[str], references: Iterable[Reference]) -> list[str]:
        """What each reference means, in words that are the same in every target."""
        meanings = self._map_names(draft, reads)
        # One name may be that of a model and of a dbt model, and both be read.
        exact = {(slot.name.lower(), slot.kind): read for slot, read in zip(list_slots(draft), reads, strict=True)}
        names = (exact.get((r.name.lower(), r.kind)) or meanings[r.name.lower()] for r in references)
        return [self.resolver.get_logical_name(name) for name in names]

    def hash_functions(self, draft: Draft, reads: Sequence[str]) -> dict[str, str]:
        """The hashes of the functions that a model uses, by name, and of the materialisation that builds it."""
        logical = self._build_logical(draft, reads)
        hashes = {name: self.functions.hash_function(name, logical) for name in sorted(draft.functions)}
        return hashes | link_materialization(draft, self.materializations)[0]

    def list_definitions(self, draft: Draft, reads: Sequence[str]) -> dict[str, list[object]]:
        """What the hashes of SQL functions were made of, by name."""
        logical = self._build_logical(draft, reads)
        definitions = {name: self.functions.build_definition(name, logical) for name in sorted(draft.functions)}
        return {name: parts for name, parts in definitions.items() if parts}

    def _build_logical(self, draft: Draft, reads: Sequence[str]) -> Callable[[str], str]:
        meanings = self._map_names(draft, reads)
        return lambda name: (
            self.resolver.get_logical_name(meanings[name.lower()]) if name.lower() in meanings else name.lower()
        )

    def _map_names(self, draft: Draft, reads: Sequence[str]) -> dict[str, str]:
        return dict(zip((slot.name.lower() for slot in list_slots(draft)), reads, strict=True))

    def hash_macros(self, draft: Draft) -> dict[str, str]:
        """The hashes of the macros that a model uses, by name with an @ before it."""
        names = draft.expanded.macros if draft.expanded is not None else ()
        return {f"@{name}": self.macros.compute_hash(name) for name in sorted(names)}

    def build_functions(self, project: Project, names: Iterable[str]) -> tuple[Function, ...]:
        """All functions, as the build needs them; those with these names are used."""
        hashes = {name: function_hash for node in project for name, function_hash in node.functions.items()}
        used = set(names)
        functions = (
            (name, hashes.get(name) or self.functions.hash_function(name, str.lower))
            for name in sorted(self.functions.names)
        )
        return tuple(replace(self.functions.build_function(name, own), used=name in used) for name, own in functions)
