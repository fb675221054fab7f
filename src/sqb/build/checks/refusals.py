"""What Spark alone can tell of checks before anything runs: conditions, regular expressions and audits of one's own.

Nothing is read: Spark analyses them over an empty relation with the columns that the model will have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sqb.checks.catalogue import CATALOGUE
from sqb.checks.values import WHOLE, Check, Violations
from sqb.errors import BadAudit, BadCheckArguments, ProjectError
from sqb.names import At, place
from sqb.sql.expand import literal

_CONDITIONS = ("boolean", "void")


def refused_conditions(session: Any, checks: Iterable[Check], whole: str) -> Iterator[ProjectError]:
    """Conditions that do not fit the columns of `whole`, or are not true or false."""
    asked = [(check, condition) for check in checks for condition in check.conditions]
    try:
        kinds = _kinds(session, [condition for _, condition in asked], whole)
    except Exception as error:
        said_by_spark(error)
        for check, condition in asked:
            yield from _refused_condition(session, check, condition, whole)
        return
    yield from (_no_condition(check, kind) for (check, _), kind in zip(asked, kinds, strict=True) if _is_none(kind))


def _kinds(session: Any, conditions: Sequence[str], whole: str) -> list[str]:
    if not conditions:
        return []
    listed = ", ".join(f"{condition} AS c{i}" for i, condition in enumerate(conditions))
    return [kind for _, kind in session.sql(f"SELECT {listed} FROM {whole}").dtypes]


def _refused_condition(session: Any, check: Check, condition: str, whole: str) -> Iterator[ProjectError]:
    try:
        (kind,) = _kinds(session, [condition], whole)
    except Exception as error:
        message, hint, _ = said_by_spark(error)
        yield BadCheckArguments(f"{check.text}: {message}", at=check.at, hint=hint)
    else:
        if _is_none(kind):
            yield _no_condition(check, kind)


def _is_none(kind: str) -> bool:
    return kind not in _CONDITIONS


def _no_condition(check: Check, kind: str) -> BadCheckArguments:
    message = f"{check.text}: the condition is {kind}, and must be true or false"
    return BadCheckArguments(message, at=check.at, hint="compare it with something")


def refused_patterns(session: Any, checks: Iterable[Check]) -> Iterator[ProjectError]:
    """Regular expressions that Java cannot read."""
    asked = [(check, pattern) for check in checks for pattern in check.patterns]
    if _readable(session, [pattern for _, pattern in asked]):
        return
    for check, pattern in asked:
        if not _readable(session, [pattern]):
            message = f"{check.name}: `{pattern}` is not a regular expression that Java can read"
            yield BadCheckArguments(message, at=check.at, hint=f"write {CATALOGUE[check.name].usage}")


def _readable(session: Any, patterns: Sequence[str]) -> bool:
    if not patterns:
        return True
    try:
        asked = ", ".join(f"'' RLIKE {literal(pattern)}" for pattern in patterns)
        session.sql(f"SELECT {asked}").collect()
    except Exception as error:
        said_by_spark(error)
        return False
    return True


def refused_audits(
    session: Any, checks: Iterable[Check], whole: str, named: Callable[[str], str], root: Path
) -> Iterator[ProjectError]:
    """Audits of one's own that Spark refuses, at the place in their file."""
    for check in checks:
        if check.name in CATALOGUE or not isinstance(check.test, Violations):
            continue
        query = check.test.query.render(lambda hole: whole if hole == WHOLE else named(hole.name))
        try:
            _ = session.sql(query).schema
        except Exception as error:
            message, hint, span = said_by_spark(error, query)
            at = _place(root, check.files[0], query[slice(*span)])
            yield BadAudit(f"{message} (called in {check.at})", at=at, hint=hint)


def _place(root: Path, file: str, fragment: str) -> At:
    """Where an audit's file says what Spark refuses; the file alone when it cannot be found there."""
    try:
        text = (root / file).read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except OSError:
        return At(file)
    found = re.search(rf"(?<!\w){re.escape(fragment)}(?!\w)", text) if fragment.strip() else None
    return place(text, found.start(), file, len(fragment)) if found else At(file)


def said_by_spark(error: Exception, sql: str = "") -> tuple[str, str | None, tuple[int, int]]:
    """What Spark says of a query; trouble with the machine, the lake or ourselves is not the check's, and goes on."""
    from sqb.spark.failures import explain  # Spark is there, or nothing would have been asked

    if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
        raise error
    failure = explain(error, sql)
    if failure.kind != "query":
        raise error
    span = (failure.start, failure.stop) if failure.start >= 0 else (0, 0)
    return failure.message, failure.hint, span
