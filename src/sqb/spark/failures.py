"""What Spark says when it fails, in words for people: no Java, no plans, no query dumps, and the place in the SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException, PythonException

from sqb.project.secrets import hide_known

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


_Words = tuple[str, str | None]
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}")
_PLACE_IN_DUMP = re.compile(r"== SQL \(line (\d+), position (\d+)\) ==")
_PLACE_OF_PARSER = re.compile(r"\(line (\d+), pos (\d+)\)")
_CLASS_NAME = re.compile(r"\b(?:[a-z][a-z0-9_]*\.)+[A-Z][\w$]*(?:Exception|Error)\b:?\s*")
_CALLING = re.compile(r"^An error occurred while calling [^\n]*\n:\s*")
_TASK_FAILED = re.compile(r"^Job aborted due to stage failure: .*?(?:\): |: (?=\[))", re.DOTALL)
_END_OF_WORDS = re.compile(r"\n\s*at |\n== SQL|\nDriver stacktrace|\nCaused by:|; line \d+ pos \d+|\n\nJVM stacktrace")
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
_CUT_OFF = ("Answer from Java side is empty", "does not exist in the JVM")
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


def explain(error: BaseException, sql: str) -> SparkFailure:
    """Why `error` was raised while `sql` ran; catalogs and their servers may quote what they were given."""
    found = _explained(error, sql)
    return replace(found, message=hide_known(found.message))


def _explained(error: BaseException, sql: str) -> SparkFailure:
    if isinstance(error, _GONE) or _is_cut_off(error):
        return SparkFailure("Spark's process ended in the middle of the work", kind="lost")
    if _is_disconnected(error):
        return SparkFailure("the connection to Spark broke in the middle of the work", hint=_REACH, kind="lost")
    whole = _whole_text(error)
    if found := _storage_failure(whole):
        return found
    said = _said(error, whole)
    condition = _condition(error, said)
    start, stop = _span(error, whole, sql)
    if condition in _CANCELLED or "cancelled as part of cancellation" in said:
        return SparkFailure("the query was cancelled", condition, kind="cancelled")
    message, hint = _words(condition, _parameters(error), said)
    if isinstance(error, PythonException):
        message, hint = _python_words(said), None
    return replace(SparkFailure(message or "Spark gave no reason", condition, hint=hint), start=start, stop=stop)


def _is_cut_off(error: BaseException) -> bool:
    """A call that the end of the process cut off; what is asked for after that seems not to exist."""
    return type(error) is Py4JError and any(sign in str(error) for sign in _CUT_OFF)


def _is_disconnected(error: BaseException) -> bool:
    """A call that did not reach a server of Spark Connect, or one whose session the server does not know any more."""
    status = getattr(error, "getGrpcStatusCode", None) or getattr(error, "code", None)
    if callable(status):
        with suppress(Exception):
            if getattr(status(), "name", "") in _NO_ANSWER:
                return True
    if isinstance(error, PySparkException):
        with suppress(Exception):
            return (error.getCondition() or "") in _NO_SESSION
    return False


def _whole_text(error: BaseException) -> str:
    """Everything that is known of an error, Java's stack of causes included."""
    # The last one is where errors of Spark Connect keep it.
    texts = [str(getattr(error, name, "") or "") for name in ("_desc", "_stackTrace", "_stacktrace")]
    # Writing an error asks Spark for it, and Spark may be gone.
    with suppress(Exception):
        texts.append(str(error))
    return "\n".join(texts)


def _storage_failure(whole: str) -> SparkFailure | None:
    for sign, kind, message, hint in _SIGNS:
        if sign in whole:
            return SparkFailure(message, hint=hint, kind=kind)
    if any(sign in whole for sign in _DENIED_SIGNS):
        found = _DENIED.search(whole)
        what = f"permission denied: {found[1]}" if found else "permission denied where the lake's files are"
        return SparkFailure(what, hint="check the permissions of the lake's folder", kind="denied")
    return None


def _said(error: BaseException, whole: str) -> str:
    """Spark's own message, without what it adds for developers."""
    text = ""
    if isinstance(error, PySparkException) and not isinstance(error, PythonException):
        with suppress(Exception):
            text = error.getMessage() or ""
    return text.strip() or str(getattr(error, "_desc", "") or whole).strip()


def _condition(error: BaseException, said: str) -> str | None:
    if isinstance(error, PySparkException):
        with suppress(Exception):
            if condition := error.getCondition():
                return condition
    found = _CONDITION.search(said)
    return found[1] if found else None


def _parameters(error: BaseException) -> Mapping[str, str]:
    if isinstance(error, PySparkException):
        with suppress(Exception):
            return error.getMessageParameters() or {}
    return {}


def _span(error: BaseException, whole: str, sql: str) -> tuple[int, int]:
    """Where in `sql` the error is; what happened inside a view has its place in the view's text, not here."""
    for start, stop in _contexts(error):
        if 0 <= start <= stop < len(sql):
            return start, stop + 1
    if isinstance(error, Py4JJavaError) and (found := _PLACE_IN_DUMP.search(whole)):
        return _offset(sql, int(found[1]), int(found[2]) - 1)
    if found := _PLACE_OF_PARSER.search(whole):
        return _offset(sql, int(found[1]), int(found[2]))
    return -1, -1


def _contexts(error: BaseException) -> Iterable[tuple[int, int]]:
    if not isinstance(error, PySparkException):
        return
    with suppress(Exception):
        for context in error.getQueryContext():
            if context.contextType().name == "SQL" and not context.objectName():
                yield context.startIndex(), context.stopIndex()


def _offset(sql: str, line: int, position: int) -> tuple[int, int]:
    """The offsets of the word that begins at a line (from 1) and position (from 0)."""
    lines = sql.split("\n")
    if not 1 <= line <= len(lines):
        return -1, -1
    start = sum(len(text) + 1 for text in lines[: line - 1]) + position
    if start > len(sql):
        return -1, -1
    word = re.compile(r"\w+|.?", re.DOTALL).match(sql, start)
    return start, max(start + 1, word.end() if word else start)


def _words(condition: str | None, parameters: Mapping[str, str], said: str) -> _Words:
    spoken = _SPOKEN.get(condition or "")
    if spoken is not None:
        with suppress(KeyError):
            return spoken(parameters)
    text = _CALLING.sub("", said)
    text = _END_OF_WORDS.split(text, maxsplit=1)[0]
    text = _CLASS_NAME.sub("", _TASK_FAILED.sub("", text))
    text = _ADVICE.sub("", _SQLSTATE.sub("", _CONDITION.sub("", text, count=1)))
    return " ".join(text.split()).rstrip("."), None


def _python_words(said: str) -> str:
    """The last line of a Python function's traceback, and the last place in it that is one of the project's."""
    lines = [line for line in said.splitlines() if line.strip()]
    own = _OWN_LINE.findall(said)
    where = f" ({own[-1][0]}:{own[-1][1]})" if own else ""
    return f"a Python function failed: {lines[-1].strip()}{where}" if lines else "a Python function failed"


def _bare(name: str) -> str:
    """A name as a person writes it: `` `s`.`t` `` and `"b"` without their quotes."""
    return name.replace("`", "").strip('"')


def _one_of(names: str) -> str:
    found = [f'"{_bare(name.strip())}"' for name in names.strip("[]").split(", ") if name.strip()][:3]
    return " or ".join(found)


def _unknown_column(p: Mapping[str, str]) -> _Words:
    near = _one_of(p.get("proposal", ""))
    return f'unknown column "{_bare(p["objectName"])}"', f"did you mean {near}?" if near else None


def _unknown_field(p: Mapping[str, str]) -> _Words:
    return f'no field is called "{_bare(p["fieldName"])}"', f"the fields are {_bare(p['fields'])}"


def _unknown_table(p: Mapping[str, str]) -> _Words:
    return f'there is no table or view "{_bare(p["relationName"])}"', None


def _unknown_function(p: Mapping[str, str]) -> _Words:
    return f'unknown function "{_bare(p["routineName"])}"', None


def _ambiguous(p: Mapping[str, str]) -> _Words:
    return (
        f'the column "{_bare(p["name"])}" is ambiguous: it could be {_one_of(p["referenceNames"])}',
        "write the table's name or alias before it",
    )


def _not_grouped(p: Mapping[str, str]) -> _Words:
    return (
        f'"{_bare(p["expression"])}" is neither in GROUP BY nor inside an aggregate',
        f"add it to GROUP BY, aggregate it, or write {_bare(p['expressionAnyValue'])} if any value will do",
    )


def _divided_by_zero(_: Mapping[str, str]) -> _Words:
    return "division by zero", "try_divide returns NULL instead"


def _not_castable(p: Mapping[str, str]) -> _Words:
    return f"the value {p['expression']} is not a valid {_bare(p['targetType'])}", "try_cast returns NULL instead"


def _cast_too_large(p: Mapping[str, str]) -> _Words:
    return (
        f"the value {p['value'].rstrip('L')} does not fit into {_bare(p['targetType'])}",
        "try_cast returns NULL instead",
    )


def _too_large(p: Mapping[str, str]) -> _Words:
    hint = p.get("alternative", "").strip().rstrip(".")
    return f"a number is too large: {p['message']}", hint[:1].lower() + hint[1:] or None


def _bad_syntax(p: Mapping[str, str]) -> _Words:
    if p["error"] in ("end of input", "'<EOF>'"):
        return "syntax error: the query ends too early", None
    return f"syntax error at or near {p['error']}{p.get('hint', '')}".rstrip("."), None


def _raised(p: Mapping[str, str]) -> _Words:
    return p["errorMessage"], None


_SPOKEN: Mapping[str, Callable[[Mapping[str, str]], _Words]] = {
    "UNRESOLVED_COLUMN.WITH_SUGGESTION": _unknown_column,
    "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION": _unknown_column,
    "FIELD_NOT_FOUND": _unknown_field,
    "TABLE_OR_VIEW_NOT_FOUND": _unknown_table,
    "UNRESOLVED_ROUTINE": _unknown_function,
    "AMBIGUOUS_REFERENCE": _ambiguous,
    "MISSING_AGGREGATION": _not_grouped,
    "DIVIDE_BY_ZERO": _divided_by_zero,
    "CAST_INVALID_INPUT": _not_castable,
    "CAST_OVERFLOW": _cast_too_large,
    "ARITHMETIC_OVERFLOW": _too_large,
    "PARSE_SYNTAX_ERROR": _bad_syntax,
    "USER_RAISED_EXCEPTION": _raised,
}
