"""The table of kinds: every kind can be built, and what is asked of all kinds has an answer for each."""

from sqb.build.kinds.registry import KINDS as BUILDERS
from sqb.project.models.keys import KEYS
from sqb.project.models.kinds import KINDS, list_added_columns


def test_every_kind_is_built_by_a_function() -> None:
    # A function of the project builds those of the kind custom; seeds are built too, and are no kind of models.
    assert set(KINDS) - {"custom"} == set(BUILDERS) - {"seed"}


def test_what_a_kind_needs_is_a_key_of_it() -> None:
    for kind in KINDS.values():
        assert not kind.needs or kind.name in KEYS[kind.needs].kinds


def test_columns_that_a_kind_adds() -> None:
    assert [name for name, _ in list_added_columns("scd2")] == ["valid_from", "valid_to", "is_current"]
    assert list_added_columns("table") == list_added_columns("seed") == ()
