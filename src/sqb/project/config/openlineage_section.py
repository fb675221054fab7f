"""`[openlineage]`: whether builds send OpenLineage events, where to, and by which names."""

from __future__ import annotations

from sqb.errors.project import BadValue
from sqb.project.config.located import Section
from sqb.project.config.secrets import find_address_secrets
from sqb.project.config.settings import OpenLineageSettings

OPENLINEAGE_KEYS = ("enabled", "url", "file", "namespace", "dataset_namespace")


def read_openlineage(top: Section) -> OpenLineageSettings:
    """The section `[openlineage]`."""
    section = top.read_table("openlineage", "[openlineage]")
    section.refuse_unknown(OPENLINEAGE_KEYS)
    return OpenLineageSettings(
        section.read_flag("enabled"),
        _read_url(section),
        _read_words(section, "file", "a file"),
        _read_words(section, "namespace", "a namespace"),
        _read_words(section, "dataset_namespace", "a namespace"),
    )


def _read_words(section: Section, key: str, expected: str) -> str:
    text = section.read_text(key)
    if text is not None and not text.strip():
        section.report(key, expected)
    return (text or "").strip()


def _read_url(section: Section) -> str:
    url = _read_words(section, "url", "an address")
    if not url:
        return ""
    # The value is not repeated: it may hold a password.
    at = section.entries["url"].at
    if find_address_secrets(url):
        hint = "put the key into OPENLINEAGE_API_KEY"
        section.errors.add(BadValue("`url` holds a secret", at=at, hint=hint))
    elif not url.startswith(("http://", "https://")):
        section.errors.add(BadValue("`url` must be an address that begins with http:// or https://", at=at))
    else:
        return url
    return ""
