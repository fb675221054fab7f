"""What Spark says when it fails, in words for people: no Java, no plans, no query dumps, and the place in the SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException, PythonException

from sqb.project.config.secrets import hide_known
from sqb.spark.private_api import get_description, get_java_stack

Kind = Literal["query", "cancelled", "disk_full", "denied", "out_of_memory", "catalog_locked", "lost"]


@dataclass(frozen=True, slots=True)
class SparkFailure:
    """Why Spark failed; `start` and `stop` (exclusive) are offsets in the SQL that was run, -1 where there are none."""

    message: str
    condition: str | None = None
    start: int = -1
    stop: int = -1
    hint: str | None = None
    kind: Kind = "query"


_MessageAndHint = tuple[str, str | None]
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}")
_PLACE_IN_DUMP = re.compile(r"== SQL \(line (\d+), position (\d+)\) ==")
_PLACE_OF_PARSER = re.compile(r"\(line (\d+), pos (\d+)\)")
_CLASS_NAME = re.compile(r"\b(?:[a-z][a-z0-9_]*\.)+[A-Z][\w$]*(?:Exception|Error)\b:?\s*")
_CALLING = re.compile(r"^An error occurred while calling [^\n]*\n:\s*")
_TASK_FAILED = re.compile(r"^Job aborted due to stage failure: .*?(?:\): |: (?=\[))", re.DOTALL)
_WAITED = "Exception thrown in awaitResult"
_CAUSED_BY = re.compile(r"\n\s*Caused by: ")
# How far from its beginning a message says what it is about.
_NEAR = 300
# The plan of a query that does not resolve follows a semicolon.
_END_OF_WORDS = re.compile(
    r"\n\s*at |\n== SQL|\nDriver stacktrace|\nCaused by:|; line \d+ pos \d+|\n\nJVM stacktrace|;\n(?='?[A-Z]\w+)"
)
_ADVICE = re.compile(
    r" If necessary set \S+ to \S+ to bypass this error\.?"
    r"| Please, refer to '[^']*' for a fix\.?"
    r"| To tolerate the [^\n]*"
)
_OWN_LINE = re.compile(r'File "(?:[^"]*/)?(functions/[^"]+)", line (\d+)')
_GONE = (Py4JNetworkError, ConnectionError, EOFError, BrokenPipeError)
_NO_ANSWER = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
_NO_SESSION = ("NO_ACTIVE_SESSION", "INVALID_HANDLE.SESSION_CHANGED", "INVALID_HANDLE.SESSION_NOT_FOUND")
_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")
_REACH = "check that the server still runs and can be reached"
_CUT_OFF_SIGNS = ("Answer from Java side is empty", "does not exist in the JVM")
_CONNECTIONS = (
    "check that Spark reaches it, and that it has connections left: a build needs one for each model that is built at"
    " once, and a few more"
)
_SIGNS: tuple[tuple[str, Kind, str, str], ...] = (
    ("No space left on device", "disk_full", "no space left on the disk", "free some space and build again"),
    ("Disk quota exceeded", "disk_full", "no space left: the disk quota is used up", "free some space and build again"),
    (
        "java.lang.OutOfMemoryError",
        "out_of_memory",
        "Spark ran out of memory",
        'give it more with `"spark.driver.memory"` in the connection\'s `conf`, or build fewer models at once',
    ),
    ("Failed to connect: jdbc:", "catalog_locked", "Spark could not connect to the catalog's database", _CONNECTIONS),
    ("Failed to get table ", "catalog_locked", "Spark could not ask the catalog's database", _CONNECTIONS),
    (
        "[SQLITE_BUSY]",
        "catalog_locked",
        "another process holds the catalog's database",
        "wait for it to end and build again",
    ),
)
_DENIED = re.compile(
    r"(?:AccessDeniedException|FileNotFoundException): (\S.*?)(?: \(Permission denied\))?$", re.MULTILINE
)
_DENIED_SIGNS = ("Permission denied", "AccessDeniedException", "AccessControlException", "Mkdirs failed to create")


def explain_failure(error: BaseException, sql: str) -> SparkFailure:
    """Why `error` was raised while `sql` ran; catalogs and their servers may quote what they were given."""
    failure = _classify_failure(error, sql)
    return replace(failure, message=hide_known(failure.message))


def _classify_failure(error: BaseException, sql: str) -> SparkFailure:
    if isinstance(error, _GONE) or _is_cut_off(error):
        return SparkFailure("Spark's process ended in the middle of the work", kind="lost")
    if _is_disconnected(error):
        return SparkFailure("the connection to Spark broke in the middle of the work", hint=_REACH, kind="lost")
    full_text = _collect_text(error)
    if failure := _find_storage_failure(full_text):
        return failure
    message_text = _get_message(error, full_text)
    condition = _find_condition(error, message_text)
    start, stop = _find_span(error, full_text, sql)
    if condition in _CANCELLED or "cancelled as part of cancellation" in message_text:
        return SparkFailure("the query was cancelled", condition, kind="cancelled")
    message, hint = _format_message(condition, _get_parameters(error), message_text)
    if isinstance(error, PythonException):
        message, hint = _format_python_failure(message_text), None
    return replace(SparkFailure(message or "Spark gave no reason", condition, hint=hint), start=start, stop=stop)


def _is_cut_off(error: BaseException) -> bool:
    """A call that the end of the process cut off; what is asked for after that seems not to exist."""
    return type(error) is Py4JError and any(sign in str(error) for sign in _CUT_OFF_SIGNS)


def get_grpc_status(error: BaseException) -> str:
    """The status with which a call to a Spark Connect server ended, such as UNAVAILABLE; "" where there is none.

    PySpark 4.0 does not hand it on: there the error of the call, which PySpark's error was raised for, has it.
    """
    reason = error.__context__ if isinstance(error, PySparkException) else None
    for candidate in (error, reason):
        status = getattr(candidate, "getGrpcStatusCode", None) or getattr(candidate, "code", None)
        if callable(status):
            with suppress(Exception):
                if name := getattr(status(), "name", ""):
                    return str(name)
    return ""


def _is_disconnected(error: BaseException) -> bool:
    """A call that did not reach a server of Spark Connect, or one whose session the server does not know any more."""
    if get_grpc_status(error) in _NO_ANSWER:
        return True
    if isinstance(error, PySparkException):
        with suppress(Exception):
            return (error.getCondition() or "") in _NO_SESSION
    return False


def _collect_text(error: BaseException) -> str:
    """Everything that is known of an error, Java's stack of causes included."""
    texts = [get_description(error), get_java_stack(error)]
    # Writing an error asks Spark for it, and Spark may be gone.
    with suppress(Exception):
        texts.append(str(error))
    return "\n".join(texts)


def _find_storage_failure(full_text: str) -> SparkFailure | None:
    for sign, kind, message, hint in _SIGNS:
        if sign in full_text:
            return SparkFailure(message, hint=hint, kind=kind)
    if any(sign in full_text for sign in _DENIED_SIGNS):
        match = _DENIED.search(full_text)
        message_text = f"permission denied: {match[1]}" if match else "permission denied where the lake's files are"
        return SparkFailure(message_text, hint="check the permissions of the lake's folder", kind="denied")
    return None


def _get_message(error: BaseException, full_text: str) -> str:
    """Spark's own message, without what it adds for developers."""
    text = ""
    if isinstance(error, PySparkException) and not isinstance(error, PythonException):
        with suppress(Exception):
            text = error.getMessage() or ""
    text = text.strip() or (get_description(error) or full_text).strip()
    # What a thread of Spark's failed with that another one waited for.
    if _WAITED in text[:_NEAR] and (causes := _CAUSED_BY.split(full_text, 1)[1:]):
        return causes[0].strip()
    return text


def _find_condition(error: BaseException, message: str) -> str | None:
    if isinstance(error, PySparkException):
        with suppress(Exception):
            if condition := error.getCondition():
                return condition
    match = _CONDITION.search(message)
    return match[1] if match else None


def _get_parameters(error: BaseException) -> Mapping[str, str]:
    if isinstance(error, PySparkException):
        with suppress(Exception):
            return error.getMessageParameters() or {}
    return {}


def _find_span(error: BaseException, full_text: str, sql: str) -> tuple[int, int]:
    """Where in `sql` the error is; what happened inside a view has its place in the view's text, not here."""
    for start, stop in _iter_contexts(error):
        if 0 <= start <= stop < len(sql):
            return start, stop + 1
    if isinstance(error, Py4JJavaError) and (match := _PLACE_IN_DUMP.search(full_text)):
        return _compute_offset(sql, int(match[1]), int(match[2]) - 1)
    if match := _PLACE_OF_PARSER.search(full_text):
        return _compute_offset(sql, int(match[1]), int(match[2]))
    return -1, -1


def _iter_contexts(error: BaseException) -> Iterable[tuple[int, int]]:
    if not isinstance(error, PySparkException):
        return
    with suppress(Exception):
        for context in error.getQueryContext():
            if context.contextType().name == "SQL" and not context.objectName():
                yield context.startIndex(), context.stopIndex()


def _compute_offset(sql: str, line: int, position: int) -> tuple[int, int]:
    """The offsets of the word that begins at a line (from 1) and position (from 0)."""
    lines = sql.split("\n")
    if not 1 <= line <= len(lines):
        return -1, -1
    start = sum(len(text) + 1 for text in lines[: line - 1]) + position
    if start > len(sql):
        return -1, -1
    word = re.compile(r"\w+|.?", re.DOTALL).match(sql, start)
    return start, max(start + 1, word.end() if word else start)


def _format_message(condition: str | None, parameters: Mapping[str, str], message: str) -> _MessageAndHint:
    formatter = _MESSAGES.get(condition or "")
    if formatter is not None:
        with suppress(KeyError):
            return formatter(parameters)
    text = _CALLING.sub("", message)
    text = _END_OF_WORDS.split(text, maxsplit=1)[0]
    text = _CLASS_NAME.sub("", _TASK_FAILED.sub("", text))
    text = _ADVICE.sub("", _SQLSTATE.sub("", _CONDITION.sub("", text, count=1)))
    return " ".join(text.split()).rstrip("."), None


def _format_python_failure(message: str) -> str:
    """The last line of a Python function's traceback, and the last place in it that is one of the project's."""
    lines = [line for line in message.splitlines() if line.strip()]
    project_lines = _OWN_LINE.findall(message)
    where = f" ({project_lines[-1][0]}:{project_lines[-1][1]})" if project_lines else ""
    return f"a Python function failed: {lines[-1].strip()}{where}" if lines else "a Python function failed"


def _strip_quotes(name: str) -> str:
    """A name as a person writes it: `` `s`.`t` `` and `"b"` without their quotes."""
    return name.replace("`", "").strip('"')


def _format_choices(names: str) -> str:
    choices = [f'"{_strip_quotes(name.strip())}"' for name in names.strip("[]").split(", ") if name.strip()][:3]
    return " or ".join(choices)


def _format_unknown_column(p: Mapping[str, str]) -> _MessageAndHint:
    near = _format_choices(p.get("proposal", ""))
    return f'unknown column "{_strip_quotes(p["objectName"])}"', f"did you mean {near}?" if near else None


def _format_unknown_field(p: Mapping[str, str]) -> _MessageAndHint:
    return f'no field is called "{_strip_quotes(p["fieldName"])}"', f"the fields are {_strip_quotes(p['fields'])}"


def _format_unknown_table(p: Mapping[str, str]) -> _MessageAndHint:
    return f'there is no table or view "{_strip_quotes(p["relationName"])}"', None


def _format_unknown_function(p: Mapping[str, str]) -> _MessageAndHint:
    return f'unknown function "{_strip_quotes(p["routineName"])}"', None


def _format_ambiguous(p: Mapping[str, str]) -> _MessageAndHint:
    return (
        f'the column "{_strip_quotes(p["name"])}" is ambiguous: it could be {_format_choices(p["referenceNames"])}',
        "write the table's name or alias before it",
    )


def _format_not_grouped(p: Mapping[str, str]) -> _MessageAndHint:
    return (
        f'"{_strip_quotes(p["expression"])}" is neither in GROUP BY nor inside an aggregate',
        f"add it to GROUP BY, aggregate it, or write {_strip_quotes(p['expressionAnyValue'])} if any value will do",
    )


def _format_division_by_zero(_: Mapping[str, str]) -> _MessageAndHint:
    return "division by zero", "try_divide returns NULL instead"


def _format_invalid_cast(p: Mapping[str, str]) -> _MessageAndHint:
    return (
        f"the value {p['expression']} is not a valid {_strip_quotes(p['targetType'])}",
        "try_cast returns NULL instead",
    )


def _format_cast_overflow(p: Mapping[str, str]) -> _MessageAndHint:
    return (
        f"the value {p['value'].rstrip('L')} does not fit into {_strip_quotes(p['targetType'])}",
        "try_cast returns NULL instead",
    )


def _format_overflow(p: Mapping[str, str]) -> _MessageAndHint:
    hint = p.get("alternative", "").strip().rstrip(".")
    return f"a number is too large: {p['message']}", hint[:1].lower() + hint[1:] or None


def _format_syntax_error(p: Mapping[str, str]) -> _MessageAndHint:
    if p["error"] in ("end of input", "'<EOF>'"):
        return "syntax error: the query ends too early", None
    return f"syntax error at or near {p['error']}{p.get('hint', '')}".rstrip("."), None


def _format_raised(p: Mapping[str, str]) -> _MessageAndHint:
    return p["errorMessage"], None


_MESSAGES: Mapping[str, Callable[[Mapping[str, str]], _MessageAndHint]] = {
    "UNRESOLVED_COLUMN.WITH_SUGGESTION": _format_unknown_column,
    "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION": _format_unknown_column,
    "FIELD_NOT_FOUND": _format_unknown_field,
    "TABLE_OR_VIEW_NOT_FOUND": _format_unknown_table,
    "UNRESOLVED_ROUTINE": _format_unknown_function,
    "AMBIGUOUS_REFERENCE": _format_ambiguous,
    "MISSING_AGGREGATION": _format_not_grouped,
    "DIVIDE_BY_ZERO": _format_division_by_zero,
    "CAST_INVALID_INPUT": _format_invalid_cast,
    "CAST_OVERFLOW": _format_cast_overflow,
    "ARITHMETIC_OVERFLOW": _format_overflow,
    "PARSE_SYNTAX_ERROR": _format_syntax_error,
    "USER_RAISED_EXCEPTION": _format_raised,
}
