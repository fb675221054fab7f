"""Which checkpoint is meant."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sqb.environments.model import Binding, Checkpoint, Environment, Ref, Status
from sqb.environments.promotion.rollback import choose_checkpoint, is_at_checkpoint
from sqb.errors.environments import NoSuchCheckpoint

T0 = datetime(2026, 1, 1, tzinfo=UTC)
BINDINGS = [Binding("a", "model", "table", "l", f"v{i}") for i in range(4)]


def refs(version: int) -> dict[str, Ref]:
    return {"a": Ref(BINDINGS[version])}


def checkpoint(number: int, id: str, parent: str, environment: str = "prod") -> Checkpoint:
    at = T0 + timedelta(hours=number)
    return Checkpoint(id, environment, parent, at, "build", "", "run", "", {"a": BINDINGS[number].id}, number)


FIRST, SECOND, THIRD = (
    checkpoint(1, "aa11", ""),
    checkpoint(2, "ab22", "aa11"),
    checkpoint(3, "7733", "ab22"),
)
OTHER = checkpoint(1, "cc44", "", "dev")
ALL = [THIRD, SECOND, OTHER, FIRST]
PROD = Environment("prod", Status.FINALIZED, T0, T0, checkpoint="7733")


def test_one_step_back_each_time() -> None:
    assert choose_checkpoint(PROD, refs(3), ALL) is SECOND
    assert choose_checkpoint(replace(PROD, checkpoint="ab22"), refs(2), ALL) is FIRST


def test_what_was_built_since_goes_first() -> None:
    assert choose_checkpoint(PROD, refs(0), ALL) is THIRD
    assert choose_checkpoint(PROD, {}, ALL) is THIRD
    assert not is_at_checkpoint({**refs(3), "b": Ref(BINDINGS[0])}, THIRD)


def test_by_id_beginning_and_number_back_and_forth() -> None:
    assert choose_checkpoint(PROD, refs(3), ALL, "aa11") is FIRST
    assert choose_checkpoint(PROD, refs(3), ALL, "ab") is SECOND
    assert choose_checkpoint(replace(PROD, checkpoint="aa11"), refs(1), ALL, "3") is THIRD
    assert choose_checkpoint(PROD, refs(3), ALL, "#1") is FIRST
    assert choose_checkpoint(PROD, refs(3), ALL, "7733") is THIRD, "not a number here, but an id"


def test_none_before_the_first() -> None:
    with pytest.raises(NoSuchCheckpoint, match=r"is at its first checkpoint, 1 .* there is none before it"):
        choose_checkpoint(replace(PROD, checkpoint="aa11"), refs(1), ALL)


def test_no_checkpoint_at_all() -> None:
    with pytest.raises(NoSuchCheckpoint, match="prod has no checkpoint to go back to") as error:
        choose_checkpoint(replace(PROD, checkpoint=""), refs(1), [OTHER])
    assert error.value.hint == "a build that finalizes it makes one, and so does a promotion to it"


def test_one_that_is_not_kept() -> None:
    with pytest.raises(NoSuchCheckpoint, match=r"the checkpoint before 3 \(.*\) of prod is no longer kept"):
        choose_checkpoint(PROD, refs(3), [THIRD])


@pytest.mark.parametrize(
    ("wanted", "messages"),
    [
        ("a", '"a" fits 2 checkpoints of prod'),
        ("9", 'prod has no checkpoint "9"'),
        ("zz", 'prod has no checkpoint "zz"'),
        ("", 'prod has no checkpoint ""'),
        ("cc4", 'the checkpoint "cc4" is of dev, not of prod'),
    ],
)
def test_wrong_names(wanted: str, messages: str) -> None:
    with pytest.raises(NoSuchCheckpoint) as error:
        choose_checkpoint(PROD, refs(3), ALL, wanted)
    assert error.value.message == messages and error.value.hint
