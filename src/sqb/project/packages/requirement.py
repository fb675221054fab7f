"""Version requirements such as `>=1.2,<2`, in the words of Python's packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLAUSE = re.compile(r"(~=|==|!=|<=|>=|<|>)\s*v?(\d+(?:\.\d+)*(?:\.\*)?(?:[-_.]?(?:a|b|rc|dev|post)[-_.]?\d*)*)")
_VERSION = re.compile(r"v?(?:\d+!)?(\d+(?:\.\d+)*)(.*)")
_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "pre": -1, "post": 1}
_STAGE = re.compile(r"[-_.]?(dev|alpha|a|beta|b|rc|c|pre|post)[-_.]?(\d*)")

# The numbers of a release, then what comes before it (negative) or after it.
_Key = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]


def find_requirement_problem(text: str) -> str | None:
    """What of a text is not a requirement, quoted; None where all is well."""
    if text.strip() == "*":
        return None
    for clause in text.split(","):
        match = _CLAUSE.fullmatch(clause.strip())
        if match is None or (match[2].endswith(".*") and match[1] not in ("==", "!=")):
            return f'"{clause.strip()}"'
        if match[1] == "~=" and "." not in match[2]:
            return f'"{clause.strip()}"'
    return None


def is_met(requirement: str, version: str) -> bool:
    """Whether a version is one of those that are asked for."""
    return all(_compare(operator, wanted, version) for operator, wanted in _iter_clauses(requirement))


def _iter_clauses(requirement: str) -> Iterator[tuple[str, str]]:
    for clause in requirement.split(","):
        if (match := _CLAUSE.fullmatch(clause.strip())) is not None:
            yield match[1], match[2]


def _compare(operator: str, wanted: str, version: str) -> bool:
    if wanted.endswith(".*"):
        return _has_prefix(version, wanted[:-2]) == (operator == "==")
    if operator == "~=":
        prefix = _parse(wanted)[0][:-1]
        return _build_key(version) >= _build_key(wanted) and _has_prefix(version, ".".join(map(str, prefix)))
    left, right = _build_key(version), _build_key(wanted)
    match operator:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<=":
            return left <= right
        case ">=":
            return left >= right
        case "<":
            # 2.0rc1 is not below 2: who excludes a release excludes what leads to it.
            return left < right and (left[0] != right[0] or not _is_early(left) or _is_early(right))
        case _:
            return left > right


def _has_prefix(version: str, prefix: str) -> bool:
    numbers, wanted = _parse(version)[0], tuple(int(part) for part in prefix.split("."))
    return (*numbers, *[0] * len(wanted))[: len(wanted)] == wanted


def _is_early(key: _Key) -> bool:
    return any(stage < 0 for stage, _ in key[1])


def _parse(version: str) -> _Key:
    match = _VERSION.match(version.strip().lower())
    if match is None:
        return (), ()
    stages = (stage.groups() for stage in _STAGE.finditer(match[2].partition("+")[0]))
    numbers = tuple(int(part) for part in match[1].split("."))
    return numbers, tuple((_STAGES[word], int(number or 0)) for word, number in stages)


def _build_key(version: str) -> _Key:
    """What versions are ordered by; 1.2 and 1.2.0 are one."""
    numbers, stages = _parse(version)
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers, (*stages, (0, 0))
