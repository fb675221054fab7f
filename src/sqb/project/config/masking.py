"""Lines of settings as errors may show them: without the values that may be secrets, however the line is written.

A file that does not parse is where errors show lines, so nothing here trusts its grammar. A line that is well formed
by itself loses the values of its secret keys; any other line loses everything behind the first word that smells of a
secret, and everything if the key or the table that it belongs to does.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import PurePosixPath

from sqb.project.config.secrets import find_literal_secrets, is_secret_name, mask_secrets
from sqb.project.config.toml import KeyPath, find_places

# One's own settings, not committed: every value there may be a secret.
_PRIVATE = "sqlbuild_local.toml"
_YAML = (".yml", ".yaml")
_VARIABLE = re.compile(r"@@ENV:[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[\w.$-]+")
# The key of a line, of TOML or YAML, with what is between it and its value.
_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'[^']*'"
_KEY = re.compile(rf"\s*(?:- +)*((?:{_QUOTED}|[\w$-]+)(?:\s*\.\s*(?:{_QUOTED}|[\w$-]+))*)\s*(=(?!=*\s*$)|:(?=\s|$))\s*")
_HEADER = re.compile(r"\s*\[\[?([^\[\]=#]*)\]\]?\s*(?:#.*)?$")
_BETWEEN = re.compile(r"[\"']?\s*[=:]?\s*")
_EQUALS = re.compile(r"[=:]\s*")
_BLANK = re.compile(r"\s*(#.*)?$")
# In a line that is not well formed a password ends at the last @, whatever is in it.
_ADDRESS = re.compile(r"(://[^:/@\s\"']*:)(.*)(?=@)")
_OPEN_ADDRESS = re.compile(r"(://[^:/@\s\"']*:)(?!\d+(?:[/?;\"'\s]|$))([^@]*)$")


def mask_line(lines: Sequence[str], number: int, file: str) -> str:
    """Line `number` of a file, from 1, as an error may show it: as long as it was, without values that are secrets."""
    path, line, above = PurePosixPath(file), lines[number - 1], lines[: number - 1]
    if path.name == _PRIVATE:
        return _mask_private(line, above)
    if path.suffix == ".toml":
        return _mask_toml(line, above)
    return _mask_yaml(line, above) if path.suffix in _YAML else line


def _mask_private(line: str, above: Sequence[str]) -> str:
    """A line of which only the key is shown, or the name of a table."""
    if _is_inside_string(above):
        return _mask_from(line, 0)
    if _HEADER.match(line) or _BLANK.fullmatch(line):
        return _mask_from(line, line.index("#")) if "#" in line else line
    key = _KEY.match(line)
    return _mask_from(line, key.end() if key else 0)


def _mask_toml(line: str, above: Sequence[str]) -> str:
    if _continues_secret(line, above):
        return _mask_from(line, 0)
    table = next((match[1] for before in reversed(above) if (match := _HEADER.match(before))), "")
    places = _find_values(line)
    if places is None:
        key = _KEY.match(line)
        return _mask_from(line, key.end()) if key and is_secret_name(f"{table}.{key[1]}") else _mask_loosely(line)
    for keys, start, end in places:
        if is_secret_name(".".join((table, *map(str, keys)))):
            line = line[:start] + _mask_text(line[start:end]) + line[end:]
    for secret in sorted(find_literal_secrets(line), key=len, reverse=True):
        line = line.replace(secret, "*" * len(secret))
    return mask_secrets(line)


def _mask_yaml(line: str, above: Sequence[str]) -> str:
    key = _KEY.match(line)
    if _is_under_secret(line, above):
        return _mask_from(line, _measure_indent(line))
    if key is not None and is_secret_name(key[1]):
        return _mask_from(line, key.end())
    if key is not None and not re.search(r"[{\[=:]", line[key.end() :]):
        return line
    return _mask_loosely(line)


def _mask_loosely(line: str) -> str:
    """A line that is not written as settings are: all after a word that looks like the name of a secret is hidden."""
    suspect = next((word for word in _WORD.finditer(line) if is_secret_name(word[0])), None)
    if suspect is not None:
        between = _BETWEEN.match(line, suspect.end())
        line = _mask_from(line, between.end() if between else suspect.end())
    # A key that fell apart.
    elif (equals := _EQUALS.search(line)) and is_secret_name(re.sub(r"\s", "", line[: equals.start()])):
        line = _mask_from(line, equals.end())
    for pattern in (_ADDRESS, _OPEN_ADDRESS):
        line = pattern.sub(lambda match: match[1] + _mask_text(match[2]), line)
    return mask_secrets(line)


# --- what a line belongs to -------------------------------------------------------------------------------------------


def _find_values(line: str) -> list[tuple[KeyPath, int, int]] | None:
    """The values of a line of TOML that is well formed by itself, with their keys and places; None where it is not."""
    if not _is_complete(line):
        return None
    places = find_places(line, "").items()
    # The name of a table has no value.
    values = [(keys, place.value) for keys, place in places if place.value != place.key or isinstance(keys[-1], int)]
    return [(keys, at.column - 1, at.column - 1 + at.length) for keys, at in values]


def _is_complete(line: str) -> bool:
    try:
        return bool(tomllib.loads(line))
    except (tomllib.TOMLDecodeError, RecursionError):
        return False


def _continues_secret(line: str, above: Sequence[str]) -> bool:
    """Whether a line of TOML goes on with the value of a secret key that was begun above it."""
    inside = _is_inside_string(above)
    if not inside and (_KEY.match(line) or _HEADER.match(line)):
        return False
    for before in reversed(above):
        if not inside and (_is_complete(before) or _HEADER.match(before)):
            return False
        if any(is_secret_name(word) for word in _WORD.findall(before)):
            return True
        # The lines of a string may look like anything; above its first one is what is read as usual.
        inside = inside and '"""' not in before and "'''" not in before
    return False


def _is_under_secret(line: str, above: Sequence[str]) -> bool:
    """Whether a key above, of which a line of YAML is a part by its indentation, is that of a secret."""
    depth, is_item = _measure_indent(line), line.lstrip().startswith("-")
    for before in reversed([b for b in above if not _BLANK.fullmatch(b)]):
        indent, key = _measure_indent(before), _KEY.match(before)
        holds_items = is_item and indent == depth and not before.lstrip().startswith("-")
        if indent < depth or holds_items:
            if any(is_secret_name(word) for word in ((key[1],) if key else _WORD.findall(before))):
                return True
            depth, is_item = indent, before.lstrip().startswith("-")
    # Quotes that are not closed go on with any indentation.
    last = next((b for b in reversed(above) if not _BLANK.fullmatch(b)), "")
    return _KEY.match(line) is None and any(is_secret_name(word) for word in _WORD.findall(last))


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_inside_string(above: Sequence[str]) -> bool:
    """Whether a string of several lines was begun above and not ended."""
    text = "\n".join(above)
    return any(text.count(quotes) % 2 for quotes in ('"""', "'''"))


# --- stars ------------------------------------------------------------------------------------------------------------


def _mask_from(line: str, start: int) -> str:
    return line[:start] + _mask_text(line[start:])


def _mask_text(text: str) -> str:
    """As many stars, with the quotes around the text and variables in it left as they are."""
    body = text.rstrip()
    first = body[:1] if body[:1] in ("'", '"') else ""
    last = body[-1:] if len(body) > 1 and body[-1:] == first else ""
    inner = body[len(first) : len(body) - len(last)]
    masked, at = "", 0
    for variable in _VARIABLE.finditer(inner):
        masked += "*" * (variable.start() - at) + variable[0]
        at = variable.end()
    return f"{first}{masked}{'*' * (len(inner) - at)}{last}{text[len(body) :]}"
