"""Secrets of connections: which values are one, and how `@@ENV:NAME` becomes what the environment says.

A value of a connection is kept as it was written, in caches too; what `@@ENV:NAME` stands for is looked up at the
moment of use, by `resolved` alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote

from sqb.errors.connections import MissingSecret

_VARIABLE = re.compile(r"@@ENV:([A-Za-z_][A-Za-z0-9_]*)")
# The words that names of secret settings are made of: `s3.secret-access-key`, `jdbc.password`, `credential`.
_SECRET_WORDS = re.compile(
    r"password|passwd|passphrase|pwd|secret|token|credential|authorization|cookie|header\.([^.]*[-_])?auth$"
    r"|(access|account|private|api|sas)[-_.]?key|connection[-_.]?string",
    re.IGNORECASE,
)
# What such names end with when their values are not secret: `credentials-provider`, `token-refresh-enabled`.
_HARMLESS = re.compile(
    r"(enabled|provider|type|uri|url|endpoint|region|location|scope|timeout|\bms|_ms|class|impl|file|path|length)$",
    re.IGNORECASE,
)
# Hiding what is shorter would hide numbers and sizes, and make messages unreadable.
_LEAST_LENGTH = 4
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;?/]+)=([^&;]*)")
# In a line of TOML: after the user in an address, up to its last @; as a setting behind one; as a value of its own.
_PASSWORD = re.compile(r"""(://[^:/@\s"']*:)([^\s"']*)(?=@)""")
# The same within any text, also where it is written as JSON.
_PASSWORD_WITHIN = re.compile(r"""(://[^:/@\s"'<>\\]*:)([^\s"'@/\\]+)(?=@)""")
_SETTING_WITHIN = re.compile(r"""([?&;]([\w.-]+)=)([^&;\s"'<>\\]*)""")
_SETTING = re.compile(r"""([?&;]([\w.-]+)=)([^&;\s"']*)""")
_VALUE = re.compile(r"""(["']?([\w.-]+)["']?\s*=\s*)("[^"]*"|'[^']*')""")
# A setting of Java's among the options that it is started with.
_JAVA = re.compile(r"""(-D([\w.-]+)=)("[^"]*"|'[^']*'|[^\s"']+)""")
_HIDDEN = "***"
# Every secret that this process has come to know, in the forms in which it may be repeated.
_KNOWN: set[str] = set()
# Stands for a variable while an address is taken apart: no part of an address holds it.
_SOMETHING = "\0"
_MARKED = re.compile("\0([^\0]+)\0")


def resolve_variables(text: str, where: str) -> str:
    """A text of a connection with what the environment says in the place of `@@ENV:NAME`."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise MissingSecret(
                f"{where} needs the environment variable {name}, which is not set",
                hint=f"set {name}, or give the value in sqlbuild_local.toml",
            )
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def resolve_address(text: str, where: str) -> str:
    """The same of an address, with values written so that each stays the part of the address that it stands for.

    Whatever a password or a token is made of, it may be in a variable as it is. A variable that is the whole
    address, or its host and port, is taken as it is too.
    """
    scheme, separator, rest = _VARIABLE.sub(lambda match: f"{_SOMETHING}{match[1]}{_SOMETHING}", text).partition("://")
    if not separator or _SOMETHING in scheme:
        return resolve_variables(text, where)
    address, parameters = re.fullmatch(r"([^?;]*)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
    authority, slash, path = address.partition("/")
    who, at, hosts = authority.rpartition("@")

    def filled(part: str, safe: str | None) -> str:
        def value(match: re.Match[str]) -> str:
            plain = resolve_variables(f"@@ENV:{match[1]}", where)
            return plain if safe is None else quote(plain, safe=safe)

        return _MARKED.sub(value, part)

    parts = (filled(who, ""), at, filled(hosts, None), slash, filled(path, "/"), filled(parameters, ""))
    return f"{scheme}://{''.join(parts)}"


def has_variable(text: str) -> bool:
    """Whether a text needs the environment to be understood."""
    return _VARIABLE.search(text) is not None


def list_variable_values(key: str, text: str) -> tuple[str, ...]:
    """What the environment says for variables in a setting, where that may be a secret: its name need not say so."""
    if _HARMLESS.search(key):
        return ()
    values = (os.environ.get(name, "") for name in _VARIABLE.findall(text))
    return tuple(value for value in values if len(value) >= _LEAST_LENGTH)


def is_secret_name(key: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return _SECRET_WORDS.search(key) is not None and _HARMLESS.search(key) is None


def find_address_secrets(address: str) -> tuple[str, ...]:
    """The passwords and tokens that an address holds, as they are written there and as they are meant."""
    _, scheme, rest = address.partition("://")
    if not scheme:
        return ()
    who = rest.partition("?")[0].partition("/")[0].rpartition("@")[0]
    secrets = [who.partition(":")[2], *(value for key, value in _PARAMETER.findall(rest) if is_secret_name(key))]
    return tuple(dict.fromkeys(form for secret in secrets if secret for form in (secret, unquote(secret))))


def _find_secrets(value: str) -> tuple[str, ...]:
    """The secrets that a value holds which is an address, or options of Java's."""
    java = (text.strip("\"'") for _, key, text in _JAVA.findall(value) if is_secret_name(key))
    return (*find_address_secrets(value), *java)


def find_literal_secrets(value: str) -> tuple[str, ...]:
    """The secrets within a value that are written out."""
    known = _find_secrets(_VARIABLE.sub(_SOMETHING, value))
    return tuple(secret for secret in known if _SOMETHING not in secret)


def hide(text: str, secrets: Iterable[str]) -> str:
    """A text without any of the secrets, the longest first: one may be a part of another."""
    for secret in sorted({s for s in secrets if s}, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text


def remember_secrets(secrets: Iterable[str]) -> None:
    """Remember secrets at the moment of use: unreviewed texts must not show them."""
    for secret in secrets:
        if len(secret) >= _LEAST_LENGTH and not has_variable(secret):
            _KNOWN.update((secret, quote(secret, safe=""), repr(secret)[1:-1]))


def list_known() -> tuple[str, ...]:
    """Every secret that this process has come to know."""
    return tuple(_KNOWN)


def hide_known(text: str) -> str:
    """A text without any secret that this process has come to know, for texts that are not written for people."""
    return hide(text, tuple(_KNOWN))


def list_secret_values(options: Mapping[str, str]) -> tuple[str, ...]:
    """The values of settings that are secrets, wherever in them these are."""
    secrets = [value for key, value in options.items() if is_secret_name(key)]
    # A client's id and its secret.
    secrets += [value.partition(":")[2] for key, value in options.items() if key == "credential"]
    secrets += [secret for value in options.values() for secret in _find_secrets(value)]
    return tuple(secrets)


def hide_in_addresses(text: str) -> str:
    """A text without the passwords and tokens of all addresses in it, whoever's they are."""

    def setting(match: re.Match[str]) -> str:
        return f"{match[1]}{_HIDDEN}" if match[3] and is_secret_name(match[2]) else match[0]

    return _SETTING_WITHIN.sub(setting, _PASSWORD_WITHIN.sub(rf"\1{_HIDDEN}", text))


def mask_secrets(line: str) -> str:
    """A line of settings with its secrets made unreadable, as long as it was."""

    def stars(text: str) -> str:
        return text if has_variable(text) else "*" * len(text)

    def setting(match: re.Match[str]) -> str:
        lead, key, value = match.groups()
        return f"{lead}{stars(value)}" if is_secret_name(key) else match[0]

    def whole(match: re.Match[str]) -> str:
        lead, key, value = match.groups()
        return f"{lead}{value[0]}{stars(value[1:-1])}{value[-1]}" if is_secret_name(key) else match[0]

    line = _JAVA.sub(setting, _VALUE.sub(whole, line))
    line = _PASSWORD.sub(lambda match: match[1] + stars(match[2]), line)
    return _SETTING.sub(setting, line)
