"""The CTEs at the top of a query, found on tokens: their names, and where the query proper begins."""

from __future__ import annotations

from dataclasses import dataclass

from sqb.sql.lexer import closing, code


@dataclass(frozen=True, slots=True)
class Ctes:
    """The names of a query's top-level CTEs as written, and the offset at which the rest of the query begins."""

    names: tuple[str, ...]
    end: int


def top_level_ctes(text: str) -> Ctes:
    """What stands in the WITH at the beginning of a query; no names when it has none."""
    found = code(text)
    if not found or found[0].text.lower() != "with":
        return Ctes((), 0)
    names: list[str] = []
    index = 1
    if found[1:2] and found[1].text.lower() == "recursive" and found[2:3] and found[2].kind in ("word", "quoted"):
        # `WITH recursive AS (…)` is a CTE of that name.
        index = 1 if found[2].text.lower() == "as" else 2
    while index < len(found):
        names.append(found[index].text.strip("`").replace("``", "`"))
        # A list of columns, MAX RECURSION LEVEL and AS may stand between the name and the body.
        body = index + 1
        while body < len(found) and not (found[body].text == "(" and found[body - 1].text.lower() == "as"):
            body += 1
        end = closing(found, body) if body < len(found) else None
        if end is None or end + 1 >= len(found):
            return Ctes((), 0)
        if found[end + 1].text != ",":
            return Ctes(tuple(names), found[end].end)
        index = end + 2
    return Ctes((), 0)
