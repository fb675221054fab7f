"""A lake and the state of its environments know each other, whatever catalog the lake has."""

from __future__ import annotations

import pytest

from contract.lakes import Probe
from sqb.environments.state.pairing import Match, pair_lake, read_pairing, repair_pairing
from sqb.errors.environments import ForeignState
from support.memory_store import MemoryStore


def test_a_lake_knows_the_state_of_its_environments(probe: Probe) -> None:
    mine, foreign, production = MemoryStore("shop/dev"), MemoryStore("shop/dev"), MemoryStore("shop/prod")
    pair_lake(mine, probe.lake)
    pair_lake(mine, probe.lake)
    assert read_pairing(mine, probe.lake).match is Match.PAIRED
    assert read_pairing(production, probe.lake).match is Match.UNPAIRED
    with pytest.raises(ForeignState):
        pair_lake(foreign, probe.lake)
    assert read_pairing(mine, probe.lake).match is Match.PAIRED
    assert repair_pairing(foreign, probe.lake).match is Match.FOREIGN
    assert read_pairing(foreign, probe.lake).match is Match.PAIRED
    assert read_pairing(mine, probe.lake).match is Match.FOREIGN
