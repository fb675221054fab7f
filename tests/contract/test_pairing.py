"""A lake and the state of its environments know each other, whatever catalog the lake has."""

from __future__ import annotations

import pytest

from contract.lakes import Probe
from sqb.environments.memory_store import MemoryStore
from sqb.environments.pairing import Match, look_at_pair, pair, pair_anew
from sqb.errors_environments import ForeignState


def test_a_lake_knows_the_state_of_its_environments(probe: Probe) -> None:
    mine, foreign, production = MemoryStore("shop/dev"), MemoryStore("shop/dev"), MemoryStore("shop/prod")
    pair(mine, probe.lake)
    pair(mine, probe.lake)
    assert look_at_pair(mine, probe.lake).match is Match.PAIRED
    assert look_at_pair(production, probe.lake).match is Match.UNPAIRED
    with pytest.raises(ForeignState):
        pair(foreign, probe.lake)
    assert look_at_pair(mine, probe.lake).match is Match.PAIRED
    assert pair_anew(foreign, probe.lake).match is Match.FOREIGN
    assert look_at_pair(foreign, probe.lake).match is Match.PAIRED
    assert look_at_pair(mine, probe.lake).match is Match.FOREIGN
