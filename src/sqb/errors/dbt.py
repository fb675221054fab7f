"""Errors of pruning dbt projects, as a part of the tree in `sqb.errors`.

CallError                                                                          exit 2
└── NoDbt, NothingSelected, NotWithDbt                  SQB-Y001, SQB-Y008, SQB-Y014
ProjectError                                                                       exit 2
├── NotADbtProject, BoundedReplay, CycleAcrossDbt       SQB-Y002, SQB-Y009, SQB-Y010
└── ReferenceProblem: UnknownDbtModel, DbtNotRead       SQB-Y012, SQB-Y013
DbtProblem          SQB-Y…    dbt cannot do what it is asked for                   exit 1
├── DbtNotFound, DbtTooOld, ManifestUnsupported         SQB-Y003 to SQB-Y005
└── DbtRefused, NoDbtProfile, DbtFailed                 SQB-Y006, SQB-Y007, SQB-Y011
"""

from __future__ import annotations

from sqb.errors.base import SqbError
from sqb.errors.call import CallError
from sqb.errors.project import ProjectError, ReferenceProblem


class DbtProblem(SqbError):
    """dbt cannot do what it is asked for."""

    code = "SQB-Y000"


class NoDbt(CallError):
    """The project has no `[dbt]` section."""

    code = "SQB-Y001"


class NotADbtProject(ProjectError):
    """`project_dir` is not a dbt project."""

    code = "SQB-Y002"


class DbtNotFound(DbtProblem):
    """dbt cannot be started."""

    code = "SQB-Y003"


class DbtTooOld(DbtProblem):
    """This version of dbt is not supported."""

    code = "SQB-Y004"


class ManifestUnsupported(DbtProblem):
    """The manifest is of a version that sqb does not read."""

    code = "SQB-Y005"


class DbtRefused(DbtProblem):
    """dbt refuses the project or the call."""

    code = "SQB-Y006"


class NoDbtProfile(DbtProblem):
    """dbt has no profile for the project."""

    code = "SQB-Y007"


class NothingSelected(CallError):
    """The selection matches nothing in the dbt project."""

    code = "SQB-Y008"


class BoundedReplay(ProjectError):
    """`[dbt] replay_on_change` has no bounded windows."""

    code = "SQB-Y009"


class CycleAcrossDbt(ProjectError):
    """dbt and sqb models read each other in a circle."""

    code = "SQB-Y010"


class DbtFailed(DbtProblem):
    """dbt ended without results."""

    code = "SQB-Y011"


class UnknownDbtModel(ReferenceProblem):
    """`__dbt_ref` names no model of the dbt project."""

    code = "SQB-Y012"


class DbtNotRead(ReferenceProblem):
    """The dbt project has not been read yet."""

    code = "SQB-Y013"


class NotWithDbt(CallError):
    """An option of dbt's that `sqb dbt` sets itself, or that would make untrue what it remembers."""

    code = "SQB-Y014"
