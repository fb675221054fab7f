"""The section [format]: how `sqb format` lays out SQL. Read by what formats, not with every project."""

from __future__ import annotations

from typing import cast, get_args

from sqb.project.config.located import Section
from sqb.sql.formatting.settings import CommaStyle, FormatSettings, KeywordCase

KEYS = ("line_length", "keyword_case", "indent", "commas")


def read_format(top: Section) -> FormatSettings:
    """The settings under [format]."""
    section = top.read_table("format", "[format]")
    section.refuse_unknown(KEYS)
    default = FormatSettings()
    return FormatSettings(
        _read_number(section, "line_length", 20, 1000) or default.line_length,
        cast(KeywordCase, section.read_choice("keyword_case", get_args(KeywordCase)) or default.keyword_case),
        _read_number(section, "indent", 1, 8) or default.indent,
        cast(CommaStyle, section.read_choice("commas", get_args(CommaStyle)) or default.commas),
    )


def _read_number(section: Section, key: str, least: int, greatest: int) -> int | None:
    entry = section.entries.get(key)
    if entry is None:
        return None
    if type(entry.value) is int and least <= entry.value <= greatest:
        return entry.value
    section.report(key, f"a whole number from {least} to {greatest}")
    return None
