"""`selectors.yml`: selections with a name, written as dbt writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqb.errors.base import Errors
from sqb.errors.call import BadSelector
from sqb.errors.project import BadValue, DuplicateKey, MissingKey
from sqb.names import At, suggest_nearest
from sqb.project.config.located import Entry, Section, describe
from sqb.project.config.yaml import read_list
from sqb.project.files import SELECTORS_FILE, is_there
from sqb.selection.expression import ALL, Expression, Intersection, Term, Union, iter_terms, parse_words
from sqb.selection.methods import refuse_unknown_method

SELECTOR_KEYS = ("name", "description", "definition")
METHOD_KEYS = (
    "method",
    "value",
    "parents",
    "parents_depth",
    "children",
    "children_depth",
    "childrens_parents",
    "exclude",
)
_FORMS = "write words as after --select, `method:` with `value:`, or a list under `union:` or `intersection:`"


@dataclass(frozen=True, slots=True)
class NamedSelector:
    """A selection with a name, and what it is for."""

    name: str
    expression: Expression
    description: str = ""


def load_selectors(root: Path, errors: Errors) -> dict[str, NamedSelector]:
    """All selectors of a project by their names; one may name another, before or after it."""
    if not is_there(root / SELECTORS_FILE):
        return {}
    items: dict[str, tuple[Section, Entry]] = {}
    for item in read_list(root / SELECTORS_FILE, SELECTORS_FILE, "selectors", "- name: nightly", errors):
        if not isinstance(item.value, dict):
            errors.add(BadValue("a selector must be a mapping", at=item.at, hint="write `- name: nightly`"))
            continue
        section = Section(item.value, "a selector", item.at, errors)
        section.refuse_unknown(SELECTOR_KEYS)
        missing = [key for key in ("name", "definition") if key not in section.entries]
        if missing:
            errors.add(MissingKey(f"the selector has no `{missing[0]}`", at=item.at, hint=f"add `{missing[0]}: …`"))
            continue
        name = section.read_text("name")
        if name in items:
            errors.add(DuplicateKey(f"the selector `{name}` is there twice", at=section.entries["name"].at))
        elif name is not None:
            items[name] = (section, section.entries["definition"])
    reader = _Reader({name: entry for name, (_, entry) in items.items()}, errors)
    return {
        name: NamedSelector(name, reader.read_named(name, entry.at, ()), section.read_text("description") or "")
        for name, (section, entry) in items.items()
    }


def find_selector(root: Path, name: str) -> Expression:
    """The selection that `--selector` names; raises all mistakes of the file."""
    errors = Errors()
    selectors = load_selectors(root, errors)
    errors.raise_any()
    if name in selectors:
        return selectors[name].expression
    known = (
        f"{SELECTORS_FILE} has {', '.join(selectors)}" if selectors else f"selectors are declared in {SELECTORS_FILE}"
    )
    raise BadSelector(f'no selector is called "{name}"', hint=suggest_nearest(name, selectors) or known)


_NOTHING = Union(())


@dataclass(frozen=True, slots=True)
class _Reader:
    definitions: Mapping[str, Entry]
    errors: Errors

    def read_named(self, name: str, at: At, within: tuple[str, ...]) -> Expression:
        if name in within:
            self.errors.add(BadValue(f"the selector `{name}` names itself", at=at, hint="take one of the names out"))
            return _NOTHING
        if name not in self.definitions:
            hint = suggest_nearest(name, self.definitions)
            self.errors.add(BadValue(f"no selector is called `{name}`", at=at, hint=hint))
            return _NOTHING
        return self._read(self.definitions[name], (*within, name))

    def _read(self, entry: Entry, within: tuple[str, ...]) -> Expression:
        match entry.value:
            case str() as words:
                return self._parse(words, entry.at)
            case {"method": _} as table:
                return self._read_method(Section(table, "a selector", entry.at, self.errors), within)
            case {"union": Entry(value=list() as items)} as table if len(table) == 1:
                return Union(*self._read_items(items, within))
            case {"intersection": Entry(value=list() as items)} as table if len(table) == 1:
                parts, excluded = self._read_items(items, within)
                return Intersection(parts or (_NOTHING,), excluded)
            case dict() as table if len(table) == 1 and not {"union", "intersection", "exclude"} & table.keys():
                # `tag: nightly` is short for the method and its value.
                ((method, value),) = table.items()
                return self._read_method(
                    Section(
                        {"method": Entry(method, value.key_at, value.key_at), "value": value}, "", entry.at, self.errors
                    ),
                    within,
                )
        message = f"a definition must be words, a method or a list of these, not {describe(entry.value)}"
        self.errors.add(BadValue(message, at=entry.at, hint=_FORMS))
        return _NOTHING

    def _read_items(
        self, items: list[Entry], within: tuple[str, ...]
    ) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        """The parts of a list, and what is taken away from them."""
        parts: list[Expression] = []
        excluded: list[Expression] = []
        for item in items:
            match item.value:
                case {"exclude": Entry(value=list() as dropped)} as table if len(table) == 1:
                    excluded += [self._read(entry, within) for entry in dropped]
                case _:
                    parts.append(self._read(item, within))
        return tuple(parts), tuple(excluded)

    def _read_method(self, section: Section, within: tuple[str, ...]) -> Expression:
        section.refuse_unknown(METHOD_KEYS)
        method = section.read_text("method")
        value = section.entries.get("value")
        if method is None or value is None or isinstance(value.value, dict | list) or value.value is None:
            self.errors.add(MissingKey("a method needs a `value`", at=section.at, hint="add `value: …`"))
            return _NOTHING
        if method == "selector":
            term: Expression = self.read_named(str(value.value), value.at, within)
        else:
            core = value.text or str(value.value)
            above = self._read_depth(section, "parents")
            below = self._read_depth(section, "children")
            whole = section.read_flag("childrens_parents") or False
            text = core if method == "fqn" else f"{method}:{core}"
            self._check_method(method, section.entries["method"].at)
            term = Term(text, "" if method == "fqn" else method, core, above, ALL if whole else below, whole)
        dropped = section.entries.get("exclude")
        if dropped is None:
            return term
        if not isinstance(dropped.value, list):
            section.report("exclude", "a list")
            return term
        return Union((term,), tuple(self._read(entry, within) for entry in dropped.value))

    def _read_depth(self, section: Section, key: str) -> int:
        """How far up or down: `parents: true`, and not farther than `parents_depth`."""
        entry = section.entries.get(f"{key}_depth")
        if not section.read_flag(key):
            return 0
        if entry is None:
            return ALL
        if not isinstance(entry.value, int) or isinstance(entry.value, bool) or entry.value < 0:
            section.report(f"{key}_depth", "a whole number")
            return 0
        return entry.value

    def _parse(self, words: str, at: At) -> Expression:
        try:
            expression = parse_words((words,))
        except BadSelector as error:
            self.errors.add(BadValue(error.message, at=at, hint=error.hint))
            return _NOTHING
        for term in iter_terms(expression):
            self._check_method(term.method, at)
        return expression

    def _check_method(self, method: str, at: At) -> None:
        """A selection may not be used for months: a method that does not exist is reported when the file is read."""
        try:
            refuse_unknown_method(method)
        except BadSelector as error:
            self.errors.add(BadValue(error.message, at=at, hint=error.hint))
