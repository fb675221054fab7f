"""What Spark's analyser says of checks before anything runs: conditions, regular expressions and custom audits.

Nothing is read: Spark analyses them over an empty relation with the columns that the model will have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sqb.checks.catalogue import CATALOGUE
from sqb.checks.model import WHOLE, Check, Violations
from sqb.errors.project import BadAudit, BadCheckArguments, ProjectError
from sqb.names import At, locate_offset
from sqb.types.literals import format_literal

_CONDITIONS = ("boolean", "void")


def iter_condition_errors(session: Any, checks: Iterable[Check], whole: str) -> Iterator[ProjectError]:
    """Conditions that do not fit the columns of `whole`, or are not true or false."""
    conditions = [(check, condition) for check in checks for condition in check.conditions]
    try:
        kinds = _list_condition_types(session, [condition for _, condition in conditions], whole)
    except Exception as error:
        explain_spark_refusal(error)
        for check, condition in conditions:
            yield from _diagnose_condition(session, check, condition, whole)
        return
    yield from (
        _build_condition_error(check, kind)
        for (check, _), kind in zip(conditions, kinds, strict=True)
        if _is_not_boolean(kind)
    )


def _list_condition_types(session: Any, conditions: Sequence[str], whole: str) -> list[str]:
    if not conditions:
        return []
    listed = ", ".join(f"{condition} AS c{i}" for i, condition in enumerate(conditions))
    return [kind for _, kind in session.sql(f"SELECT {listed} FROM {whole}").dtypes]


def _diagnose_condition(session: Any, check: Check, condition: str, whole: str) -> Iterator[ProjectError]:
    try:
        (kind,) = _list_condition_types(session, [condition], whole)
    except Exception as error:
        message, hint, _ = explain_spark_refusal(error)
        yield BadCheckArguments(f"{check.text}: {message}", at=check.at, hint=hint)
    else:
        if _is_not_boolean(kind):
            yield _build_condition_error(check, kind)


def _is_not_boolean(kind: str) -> bool:
    return kind not in _CONDITIONS


def _build_condition_error(check: Check, kind: str) -> BadCheckArguments:
    message = f"{check.text}: the condition is {kind}, and must be true or false"
    return BadCheckArguments(message, at=check.at, hint="compare it with something")


def iter_pattern_errors(session: Any, checks: Iterable[Check]) -> Iterator[ProjectError]:
    """Regular expressions that Java cannot read."""
    patterns = [(check, pattern) for check in checks for pattern in check.patterns]
    if _can_parse_patterns(session, [pattern for _, pattern in patterns]):
        return
    for check, pattern in patterns:
        if not _can_parse_patterns(session, [pattern]):
            message = f"{check.name}: `{pattern}` is not a regular expression that Java can read"
            yield BadCheckArguments(message, at=check.at, hint=f"write {CATALOGUE[check.name].usage}")


def _can_parse_patterns(session: Any, patterns: Sequence[str]) -> bool:
    if not patterns:
        return True
    try:
        expressions = ", ".join(f"'' RLIKE {format_literal(pattern)}" for pattern in patterns)
        session.sql(f"SELECT {expressions}").collect()
    except Exception as error:
        explain_spark_refusal(error)
        return False
    return True


def iter_audit_errors(
    session: Any, checks: Iterable[Check], whole: str, named: Callable[[str], str], root: Path
) -> Iterator[ProjectError]:
    """Audits of one's own that Spark refuses, at the place in their file."""
    for check in checks:
        if check.name in CATALOGUE or not isinstance(check.test, Violations):
            continue
        query = check.test.query.render(lambda slot: whole if slot == WHOLE else named(slot.name))
        try:
            _ = session.sql(query).schema
        except Exception as error:
            message, hint, span = explain_spark_refusal(error, query)
            at = _locate_fragment(root, check.files[0], query[slice(*span)])
            yield BadAudit(f"{message} (called in {check.at})", at=at, hint=hint)


def _locate_fragment(root: Path, file: str, fragment: str) -> At:
    """Where an audit's file says what Spark refuses; the file alone when it cannot be found there."""
    try:
        text = (root / file).read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except OSError:
        return At(file)
    match = re.search(rf"(?<!\w){re.escape(fragment)}(?!\w)", text) if fragment.strip() else None
    return locate_offset(text, match.start(), file, len(fragment)) if match else At(file)


def explain_spark_refusal(error: Exception, sql: str = "") -> tuple[str, str | None, tuple[int, int]]:
    """What Spark says of a query; trouble with the machine, the lake or ourselves is not the check's, and goes on."""
    from sqb.spark.errors import explain_failure  # Spark is there, or nothing would have been asked

    if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
        raise error
    failure = explain_failure(error, sql)
    if failure.kind != "query":
        raise error
    span = (failure.start, failure.stop) if failure.start >= 0 else (0, 0)
    return failure.message, failure.hint, span
