"""Errors of virtual environments, as a part of the tree in `sqb.errors`.

CallError                                                                          exit 2
├── BadEnvironmentName, NotVirtual, NoSuchEnvironment   SQB-V001 to SQB-V003
├── StaleUpstreams                                      SQB-V005
└── NoSuchCheckpoint                                    SQB-V012
VirtualProblem      SQB-V…    something is wrong with a virtual environment        exit 1
├── Detached, EnvironmentLocked, LockLost               SQB-V004, SQB-V006, SQB-V007
├── StateUnreachable, StateNotReady                     SQB-V008, SQB-V009
├── NotFinalized, PromotionConflict, PartialPromotion   SQB-V010, SQB-V011, SQB-V014
├── ForeignState, InUse                                 SQB-V015, SQB-V016
└── ViewTaken, VersionGone                              SQB-V013, SQB-V020
"""

from __future__ import annotations

from sqb.errors.base import SqbError
from sqb.errors.call import CallError


class VirtualProblem(SqbError):
    """Something is wrong with a virtual environment."""

    code = "SQB-V000"


class BadEnvironmentName(CallError):
    """The name of a virtual environment cannot be part of a schema's name."""

    code = "SQB-V001"


class NotVirtual(CallError):
    """The project has no virtual environments."""

    code = "SQB-V002"


def not_virtual(message: str) -> NotVirtual:
    """The error of asking for environments in a project that has none."""
    return NotVirtual(message, hint="write `enabled = true` under [virtual] in sqlbuild_project.toml")


class NoSuchEnvironment(CallError):
    """There is no virtual environment of that name."""

    code = "SQB-V003"


class Detached(VirtualProblem):
    """The virtual environment is detached: builds, promotions and rollbacks are refused."""

    code = "SQB-V004"


class StaleUpstreams(CallError):
    """Selected models read others that are stale and not selected."""

    code = "SQB-V005"


class EnvironmentLocked(VirtualProblem):
    """Another process works on the virtual environment."""

    code = "SQB-V006"


class LockLost(VirtualProblem):
    """The lock of the environment was taken over while this command worked."""

    code = "SQB-V007"


class StateUnreachable(VirtualProblem):
    """The database of the virtual environments cannot be opened."""

    code = "SQB-V008"


class StateNotReady(VirtualProblem):
    """The database of the virtual environments has not been set up, or is of another version."""

    code = "SQB-V009"


class NotFinalized(VirtualProblem):
    """An environment that is not finalized is not promoted."""

    code = "SQB-V010"


class PromotionConflict(VirtualProblem):
    """The environment to promote to has moved on since the other one began."""

    code = "SQB-V011"


class NoSuchCheckpoint(CallError):
    """There is no such checkpoint, or none to go back to."""

    code = "SQB-V012"


class ViewTaken(VirtualProblem):
    """A relation that is not the environment's has the name of one of its views."""

    code = "SQB-V013"


class PartialPromotion(VirtualProblem):
    """A promotion of a part would leave models that do not fit together."""

    code = "SQB-V014"


class ForeignState(VirtualProblem):
    """The lake's environments are kept in another state than the one that the project names."""

    code = "SQB-V015"


class InUse(VirtualProblem):
    """Other virtual environments have this one as their baseline."""

    code = "SQB-V016"


class VersionGone(VirtualProblem):
    """A table or snapshot that an environment is to show again no longer exists."""

    code = "SQB-V020"
