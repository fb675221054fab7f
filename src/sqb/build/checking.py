"""A node's checks, before its rows can be seen: on what was staged, on what stands, and on a view's query."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqb.build.checks.keep import violating_rows
from sqb.build.checks.report import Failure, Report, evidence, finding, said
from sqb.build.checks.verify import verify
from sqb.build.observe import passed_checks, said_of
from sqb.build.render import pinned
from sqb.build.turn import Outcome, Turn
from sqb.checks.stored import load_checks
from sqb.checks.values import Check
from sqb.compiled import Node
from sqb.errors import SqbError
from sqb.lake.port import Stage
from sqb.names import quote
from sqb.project.seeds import read_golden

_WOULD_BE = "__sqb_would_be"
_ADDED = "__sqb_added"
# Their rows stay as they were written: what is asked of single rows is asked of those that come.
_LOGS = ("append", "scd2", "incremental")


@dataclass(frozen=True, slots=True)
class Passed:
    """Checks that passed: what is committed with the rows, and what people are told."""

    summary: Mapping[str, str]
    notices: tuple[str, ...] = ()
    # Those that do not hold and do not block, for programs.
    findings: tuple[Mapping[str, Any], ...] = ()


NONE = Passed({})


def check_stage(turn: Turn, stage: Stage, gone: Collection[str] | None, added: Any = None) -> Passed:
    """Check staged rows, and the table that they would make; raises what failed.

    `added` are the rows that are new, where rows that stay are staged beside them.
    """
    if not turn.checks_token:
        return NONE
    from sqb.spark import frames

    session = turn.session()
    new = quote(turn.catalog, stage.relation.schema, stage.relation.name)
    whole = new
    if gone is not None and turn.base is not None and turn.base.snapshot_id is not None:
        columns = stage.twin.shape.columns
        rows = frames.would_be(session, turn.relation_text(), turn.base.snapshot_id, gone, new, columns)
        whole = _WOULD_BE
        rows.createOrReplaceTempView(whole)
    if added is not None:
        new = _ADDED
        added.createOrReplaceTempView(new)
    # Rows that stay have passed before, unless the checks are others now; those of a log are not asked again.
    passed = passed_checks(turn.standing) if turn.standing is not None and not turn.standing.drifted else ""
    only_new = turn.node.kind in _LOGS or passed.partition(".")[0] == turn.node.checks_hash
    return _verified(turn, new if only_new else whole, whole, trusted=passed == turn.checks_token)


def check_standing(turn: Turn) -> Passed:
    """Check the rows that stand, unless these checks have passed on them."""
    if not turn.checks_token:
        return NONE
    standing = turn.standing
    assert standing is not None
    if passed_checks(standing) == turn.checks_token:
        return Passed({"sqb.checks": turn.checks_token, "sqb.figures": said_of(standing, "sqb.figures") or "{}"})
    return _verified_as_they_are(turn, pinned(turn.relation_text(), standing))


def check_rows(turn: Turn, rows: str) -> Passed:
    """Check rows that stand somewhere else and are about to become the node's."""
    return _verified_as_they_are(turn, rows) if turn.checks_token else NONE


def _verified_as_they_are(turn: Turn, whole: str) -> Passed:
    """Evaluate the checks of rows to which none is added: in a log there are no new ones to ask about."""
    new = f"(SELECT * FROM {whole} LIMIT 0)" if turn.node.kind in _LOGS else whole
    return _verified(turn, new, whole)


def check_view(turn: Turn) -> Passed:
    """Check what a view would show."""
    if not turn.checks_token:
        return NONE
    turn.session().sql(turn.query().sql).createOrReplaceTempView(_WOULD_BE)
    return _verified(turn, _WOULD_BE, _WOULD_BE)


def recheck(turn: Turn) -> Outcome:
    """Run the checks of a relation that stands, and record that they passed, without touching a row."""
    from sqb.spark import frames

    standing = turn.standing
    assert standing is not None
    relation = turn.node.relation
    if standing.is_view:
        passed = check_view(turn)
        turn.announce("before publish", turn.node.name)
        frames.set_view_properties(turn.session(), turn.relation_text(), passed.summary)
        state = turn.lake.tables([turn.lake.pointers()[relation]])[relation]
    else:
        passed = check_standing(turn)
        turn.confirm_files()
        said = {key: f"{standing.snapshot_id}:{text}" for key, text in passed.summary.items()}
        turn.announce("before publish", turn.node.name)
        state = turn.lake.mark(relation, standing.base, said).state
    turn.announce("published", turn.node.name)
    return Outcome(
        0, state.snapshot_id, state, True, run_type="check", notices=passed.notices, findings=passed.findings
    )


def checks_of(node: Node) -> tuple[Check, ...]:
    """A node's checks, read again from the compiled project."""
    return load_checks(node.checks[0]) if node.checks else ()


def _verified(turn: Turn, new: str, whole: str, trusted: bool = False) -> Passed:
    """Evaluate all checks; raises those that failed. With `trusted` the rows that stay have passed all of them."""
    before = turn.standing if turn.standing is not None and not turn.standing.drifted else None
    previous: Mapping[str, Any] = json.loads(said_of(before, "sqb.figures") or "{}") if before is not None else {}
    session = turn.session()
    report = verify(
        session,
        checks_of(turn.node),
        new,
        whole,
        _named(turn, whole),
        previous,
        golden=lambda file: read_golden(turn.root, file),
        now=turn.now.timestamp(),
        held_before=lambda check: trusted and not _reads_itself(turn.node, check),
    )
    unkept = _keep(turn, report) if turn.store_failures else ()
    report.raise_failures(unkept)
    summary = {"sqb.checks": turn.checks_token, "sqb.figures": json.dumps(report.figures)}
    notices = (*map(_notice, report.warnings), *(error.message for error in unkept))
    return Passed(summary, notices, tuple(map(finding, report.warnings)))


def _notice(failure: Failure) -> str:
    return "\n    ".join([f"{failure.check.at}: {said(failure)}", *evidence(failure)])


def _reads_itself(node: Node, check: Check) -> bool:
    """Whether a check compares the model with itself: then a row that goes may break it for one that stays."""
    return any(node.checks[1][read.name] == node.name for read in check.reads)


def _named(turn: Turn, whole: str) -> Callable[[str], str]:
    """What stands for the relations that checks name: this build's versions; for the model itself, its new rows."""
    resolved: Mapping[str, str] = turn.node.checks[1]
    text_of = turn.pinned

    def name(written: str) -> str:
        found = resolved[written]
        return whole if found == turn.node.name else text_of(found)

    return name


def _keep(turn: Turn, report: Report) -> tuple[SqbError, ...]:
    """Keep the rows that violate checks; that this fails must not hide what the checks found."""
    failures = (*report.failures, *report.warnings)
    node = turn.node
    rows = list(violating_rows(turn.session(), failures, node.relation.schema, node.name, turn.run_id, turn.now))
    try:
        turn.lake.append_failures(rows)
    except SqbError as error:
        return (error,)
    return ()
