"""A node's checks, before its rows can be seen: on the staged rows, on the current rows, and on a view's query."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqb.build.checks.report import Failure, Report, encode_finding, format_evidence, format_failure
from sqb.build.checks.store_failures import iter_violating_rows
from sqb.build.checks.verify import verify_checks
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.render import format_pinned
from sqb.build.observe.lake import encode_passed_checks, read_passed_checks
from sqb.checks.model import Check
from sqb.checks.stored import restore_checks
from sqb.compile.model import Node
from sqb.errors.base import SqbError
from sqb.lake.port import Stage, TableState
from sqb.names import quote
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.project.models.kinds import HISTORY_KINDS
from sqb.project.seeds import read_golden

_WOULD_BE = "__sqb_would_be"
_ADDED = "__sqb_added"


@dataclass(frozen=True, slots=True)
class PassedChecks:
    """Checks that passed: what is committed with the rows, and the notices for the user."""

    identity: CommitIdentity = CommitIdentity()
    notices: tuple[str, ...] = ()
    # Those that do not hold and do not block, for programs.
    findings: tuple[Mapping[str, Any], ...] = ()


NO_CHECKS = PassedChecks()


def check_stage(context: NodeContext, stage: Stage, gone: Collection[str] | None, added: Any = None) -> PassedChecks:
    """Check staged rows, and the table that they would make; raises what failed.

    `added` are the rows that are new, where rows that stay are staged beside them.
    """
    if not context.checks_token:
        return NO_CHECKS
    from sqb.spark.data import frames

    session = context.session()
    new = quote(context.catalog, stage.relation.schema, stage.relation.name)
    whole = new
    if gone is not None and context.base is not None and context.base.snapshot_id is not None:
        columns = stage.twin.shape.columns
        rows = frames.build_table_after(
            session, context.format_relation(), context.base.snapshot_id, gone, new, columns
        )
        whole = _WOULD_BE
        rows.createOrReplaceTempView(whole)
    if added is not None:
        new = _ADDED
        added.createOrReplaceTempView(new)
    # Rows that stay have passed before, unless the checks are others now; those of a log are not asked again.
    before = context.current if context.current is not None and not context.current.drifted else None
    passed = read_passed_checks(before).checks if before is not None else ""
    # The rows of a history stay as they were written: row checks are asked of the new ones only.
    only_new = context.node.kind in HISTORY_KINDS or passed.partition(".")[0] == context.node.checks_hash
    return _verify_checks(context, new if only_new else whole, whole, trusted=passed == context.checks_token)


def check_current(context: NodeContext) -> PassedChecks:
    """Check the current rows, unless these checks have passed on them."""
    if not context.checks_token:
        return NO_CHECKS
    current = context.current
    assert current is not None
    if read_passed_checks(current).checks == context.checks_token:
        return repeat_passed_checks(context, current)
    return _verify_unchanged_rows(context, format_pinned(context.format_relation(), current))


def repeat_passed_checks(context: NodeContext, state: TableState) -> PassedChecks:
    """What is committed of checks that have passed on these very rows before."""
    figures = read_passed_checks(state).figures or "{}"
    return PassedChecks(CommitIdentity(checks=context.checks_token, figures=figures))


def check_rows(context: NodeContext, rows: str) -> PassedChecks:
    """Check rows of another relation that are about to become the node's."""
    return _verify_unchanged_rows(context, rows) if context.checks_token else NO_CHECKS


def _verify_unchanged_rows(context: NodeContext, whole: str) -> PassedChecks:
    """Evaluate the checks of rows to which none is added: in a log there are no new ones to ask about."""
    new = f"(SELECT * FROM {whole} LIMIT 0)" if context.node.kind in HISTORY_KINDS else whole
    return _verify_checks(context, new, whole)


def check_view(context: NodeContext) -> PassedChecks:
    """Check what a view would show."""
    if not context.checks_token:
        return NO_CHECKS
    context.session().sql(context.render_query().sql).createOrReplaceTempView(_WOULD_BE)
    return _verify_checks(context, _WOULD_BE, _WOULD_BE)


def recheck_relation(context: NodeContext) -> NodeOutcome:
    """Run the checks on the current rows of a relation and record that they passed, without changing a row."""
    from sqb.spark.data import frames

    current = context.current
    assert current is not None
    relation = context.node.relation
    if current.is_view:
        passed = check_view(context)
        context.announce("before publish", context.node.name)
        frames.set_view_properties(context.session(), context.format_relation(), passed.identity.to_properties())
        state = context.lake.read_tables([context.lake.list_pointers()[relation]])[relation]
    else:
        passed = check_current(context)
        context.check_files()
        properties = encode_passed_checks(passed.identity, current)
        context.announce("before publish", context.node.name)
        state = context.lake.set_properties(relation, current.base, properties).state
    context.announce("published", context.node.name)
    return NodeOutcome(
        0, state.snapshot_id, state, True, run_type="check", notices=passed.notices, findings=passed.findings
    )


def list_checks(node: Node) -> tuple[Check, ...]:
    """A node's checks, read again from the compiled project."""
    return restore_checks(node.checks.checks)


def _verify_checks(context: NodeContext, new: str, whole: str, trusted: bool = False) -> PassedChecks:
    """Evaluate all checks; raises those that failed. With `trusted` the rows that stay have passed all of them."""
    before = context.current if context.current is not None and not context.current.drifted else None
    previous: Mapping[str, Any] = json.loads(read_passed_checks(before).figures or "{}") if before is not None else {}
    session = context.session()
    report = verify_checks(
        session,
        list_checks(context.node),
        new,
        whole,
        _build_name_resolver(context, whole),
        previous,
        golden=lambda file: read_golden(context.root, file),
        now=context.now.timestamp(),
        held_before=lambda check: trusted and not _is_self_referential(context.node, check),
    )
    unkept = _store_failures(context, report) if context.store_failures else ()
    report.raise_failures(unkept)
    identity = CommitIdentity(checks=context.checks_token, figures=json.dumps(report.figures))
    notices = (*map(_format_notice, report.warnings), *(error.message for error in unkept))
    return PassedChecks(identity, notices, tuple(map(encode_finding, report.warnings)))


def _format_notice(failure: Failure) -> str:
    return "\n    ".join([f"{failure.check.at}: {format_failure(failure)}", *format_evidence(failure)])


def _is_self_referential(node: Node, check: Check) -> bool:
    """Whether a check compares the model with itself: then a row that goes may break it for one that stays."""
    return any(node.checks.relations[read.name] == node.name for read in check.reads)


def _build_name_resolver(context: NodeContext, whole: str) -> Callable[[str], str]:
    """What stands for the relations that checks name: this build's versions; for the model itself, its new rows."""
    resolved = context.node.checks.relations
    text_of = context.pinned

    def name(written: str) -> str:
        node_name = resolved[written]
        return whole if node_name == context.node.name else text_of(node_name)

    return name


def _store_failures(context: NodeContext, report: Report) -> tuple[SqbError, ...]:
    """Keep the rows that violate checks; that this fails must not hide what the checks found."""
    failures = (*report.failures, *report.warnings)
    node = context.node
    rows = list(
        iter_violating_rows(context.session(), failures, node.relation.schema, node.name, context.run_id, context.now)
    )
    try:
        context.lake.state.append_failures(rows)
    except SqbError as error:
        return (error,)
    return ()
