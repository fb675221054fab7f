"""Contents are added, subtracted, written and read; they never load a session."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sqb.spark.data.checksum import Content, format_content

SUMS = st.integers(0, 2**64 - 1)
CONTENTS = st.builds(Content, st.integers(0, 10**12), st.tuples(SUMS, SUMS))


@given(CONTENTS, CONTENTS)
def test_what_was_added_can_be_taken_away(left: Content, right: Content) -> None:
    assert (left + right) - right == left
    assert left + right == right + left


@given(CONTENTS)
def test_the_text_is_read_back(content: Content) -> None:
    assert Content.parse(str(content)) == content


def test_sums_over_no_rows_are_the_empty_content() -> None:
    observed = {"rows": 0, "high_0": None, "low_0": None, "high_1": None, "low_1": None}
    assert format_content(observed) == str(Content()) == "n:0:0000000000000000:0000000000000000"


def test_halves_are_put_together_modulo_two_to_the_64() -> None:
    observed = {"rows": 2, "high_0": -1, "low_0": 1, "high_1": 2**33, "low_1": 2**40}
    assert format_content(observed) == "n:2:ffffffff00000001:0000010000000000"
