"""Which words are keywords where they stand: only their case may change, as that of a name is part of a result."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.sql.formatting.pieces import Piece
from sqb.sql.formatting.settings import KeywordCase
from sqb.sql.text.keywords import KEYWORDS

# Never a name where they stand between others.
_PLAIN = frozenset(
    """
    SELECT FROM WHERE GROUP BY HAVING ORDER UNION INTERSECT EXCEPT JOIN ON USING AND OR NOT IN IS NULL LIKE BETWEEN CASE
    WHEN THEN ELSE END AS DISTINCT WITH EXISTS INNER LEFT RIGHT FULL OUTER CROSS NATURAL
    """.split()
)
# Keywords that read as functions and types are left as they are written.
_LIKE_FUNCTIONS = frozenset(
    """
    DATE TIMESTAMP STRING INT INTEGER BIGINT SMALLINT TINYINT DOUBLE FLOAT DECIMAL BOOLEAN BINARY ARRAY MAP
    STRUCT IF LEFT RIGHT REPLACE SUBSTR SUBSTRING TRIM POSITION OVERLAY EXTRACT FIRST LAST ANY_VALUE YEAR
    MONTH DAY HOUR MINUTE SECOND QUARTER WEEK CHAR VARCHAR LONG SHORT BYTE REAL NUMERIC DEC DATE_ADD DATE_DIFF
    DATEADD DATEDIFF CURRENT_DATE CURRENT_TIMESTAMP CURRENT_USER CURRENT_TIME SESSION_USER USER ANY SOME
    TRANSFORM REDUCE REPEAT CONTAINS CAST TRY_CAST TRUNCATE VARIANT VOID TIME TIMESTAMP_NTZ TIMESTAMP_LTZ
    IDENTIFIER COLLATION MAX RANGE VALUES NAME TYPE VALUE KEY KEYS
    """.split()
)


def list_cased(
    pieces: Sequence[Piece], names: frozenset[int] | None, case: KeywordCase, skipped: Sequence[tuple[int, int]] = ()
) -> list[str]:
    """The texts of pieces with keywords in one case; `names` are the places of names, None where nobody knows them."""
    texts = [piece.text for piece in pieces]
    if case == "preserve":
        return texts
    for index, piece in enumerate(pieces):
        if _is_keyword(pieces, index, names) and not any(a <= piece.start < b for a, b in skipped):
            texts[index] = piece.text.upper() if case == "upper" else piece.text.lower()
    return texts


def _is_keyword(pieces: Sequence[Piece], index: int, names: frozenset[int] | None) -> bool:
    piece = pieces[index]
    before = pieces[index - 1] if index else None
    after = pieces[index + 1].text if index + 1 < len(pieces) else ""
    word = piece.word
    if (
        not word
        or word not in KEYWORDS | {"QUALIFY"}
        or (before is not None and before.text in (".", ":"))
        or after in (".", ":")
    ):
        return False
    if word == "FILTER" and (before is None or before.text != ")"):
        return False
    if names is not None:
        is_call = after == "(" and word in _LIKE_FUNCTIONS
        is_value = word in _LIKE_FUNCTIONS and word not in ("FIRST", "LAST", "LEFT", "RIGHT", "RANGE", "VALUES", "ANY")
        return piece.start not in names and not is_call and not is_value
    if word in ("LEFT", "RIGHT") and after == "(":
        return False
    return word in _PLAIN and (before is None or before.word != "AS")
