"""Whether two compiled texts mean the same: their canonical forms are compared, never the texts."""

from __future__ import annotations

from sqb.sql.lexer import code


def same_sql(before: str, now: str) -> bool:
    """Whether two queries differ in nothing but comments, white space, and the case of keywords."""
    from sqb.sql.canonical import canonical_again  # loads sqlglot, which nothing unchanged needs

    if before == now:
        return True
    try:
        return canonical_again(before, ()) == canonical_again(now, ())
    except ValueError:
        # What is no single query has no canonical form; what it is made of still tells.
        return [t.text for t in code(before)] == [t.text for t in code(now)]
