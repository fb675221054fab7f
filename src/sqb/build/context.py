"""One build, as those that run its nodes know it: what it was given, its services, and its state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from sqb.build.checks.gate import ChecksGate, WaitClock
from sqb.build.events import Event
from sqb.build.failpoints import Announce, ignore_step
from sqb.build.observe.lake import LakeState
from sqb.build.spark_engine import LazyEngine
from sqb.build.state import BuildState
from sqb.build.unit_tests.run import UnitTests
from sqb.compile.model import Project
from sqb.lake.port import Lake
from sqb.plan.model import Plan
from sqb.workspace import Workspace

Listen = Callable[[Event], None]


@dataclass(slots=True)
class BuildSettings:
    """How a build is to be carried out."""

    run_id: str
    concurrency: int = 4
    fail_fast: bool = False
    git: str = ""
    announce: Announce = ignore_step
    store_failures: bool = False
    allow_data_loss: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    # A further round of the same build, whose hooks around the whole have run or are yet to.
    continues: bool = False
    # The virtual environment that it is for; "" in a project without any.
    environment: str = ""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """One build of one plan."""

    workspace: Workspace
    lake: Lake
    lake_state: LakeState
    plan: Plan
    engine: LazyEngine
    settings: BuildSettings
    listen: Listen
    tests: UnitTests
    state: BuildState
    gate: ChecksGate
    clock: WaitClock

    @property
    def project(self) -> Project:
        return self.workspace.project
