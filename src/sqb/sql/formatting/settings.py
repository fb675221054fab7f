"""How SQL is to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KeywordCase = Literal["upper", "lower", "preserve"]
CommaStyle = Literal["trailing", "leading"]


@dataclass(frozen=True, slots=True)
class FormatSettings:
    """The settings under [format]."""

    line_length: int = 100
    keyword_case: KeywordCase = "upper"
    indent: int = 2
    commas: CommaStyle = "trailing"
