"""Bringing a result up to date from the changes of its inputs: what changed, whether it pays, and the net difference.

Whatever cannot be done exactly, or would not pay, is a `WhyNot`: the caller rebuilds and says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqb.build.render import AtVersion, Name, fixed_slot, pinned, spark_type
from sqb.compiled import Node, Project
from sqb.lake.port import SnapshotInfo, TableState
from sqb.names import Relation, quote
from sqb.plan.observed import LOADER, Version, same_version
from sqb.plan.schema import EVERYTHING, reads_of, reads_storage, same_as_read
from sqb.plan.values import Reason
from sqb.project.gate import CostGate
from sqb.sql.delta.facts import Facts, Key, term_sql
from sqb.sql.template import Part, Template, make_template

if TYPE_CHECKING:
    from sqb.build.turn import Turn

Versus = Literal["target", "result"]
# Kinds whose rows are the query's result; their content is made from that of before.
_AS_THE_RESULT = ("table", "merge", "tracked")


class WhyNot(Exception):
    """Why a result is rebuilt instead of brought up to date."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A table in a query: what it is now, and where it was when the result was made."""

    index: int
    relation: Relation
    table: str
    state: TableState
    # The snapshot that the result was made from; None when the table has not changed since.
    old: int | None = None
    how: str = ""
    changed_rows: int | None = None
    # The snapshots since then, when they follow each other.
    since: tuple[int, ...] = ()
    # Of a lookup that is INNER JOINed: the columns that it is joined by. Then it has changed by the rows whose key it
    # did not hold before, and the values of keys that it held are today's.
    late_by: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return self.old is not None

    @property
    def now(self) -> str:
        return pinned(self.table, self.state)

    @property
    def then(self) -> str:
        if self.late_by:
            return self._by_keys_of_before("SEMI")
        return f"{self.table} VERSION AS OF {self.old}" if self.old is not None else self.now

    @property
    def late(self) -> str:
        """The rows of a lookup whose key it did not hold before."""
        return self._by_keys_of_before("ANTI")

    def _by_keys_of_before(self, join: str) -> str:
        on = " AND ".join(f"n.{quote(c)} = b.{quote(c)}" for c in self.late_by)
        before = f"(SELECT {', '.join(quote(c) for c in self.late_by)} FROM {self.table} VERSION AS OF {self.old}) b"
        return f"(SELECT n.* FROM {self.now} n LEFT {join} JOIN {before} ON {on})"

    @property
    def nothing(self) -> str:
        return f"(SELECT * FROM {self.now} LIMIT 0)"


def template_of(node: Node, project: Project, live: Name, at_version: AtVersion) -> Template:
    """A node's query as a template, seen through views; raises `WhyNot` when it has none."""
    if node.python:
        raise WhyNot("its rows come from Python")
    views = {n.name: Part(n.sql, n.slots, n.reads) for n in project if n.kind == "view"}
    queries = ((s.name, s.expression) for s in project.sources.values() if s.name not in project.nodes)
    views |= {name: Part(q.sql, q.slots, q.reads) for name, q in queries if q is not None}
    return make_template(
        Part(node.sql, node.slots, node.reads),
        views,
        lambda sql, slot, name: fixed_slot(sql, slot, name, live, at_version),
    )


def holes_of(turn: Turn, template: Template, new_inputs: bool = False, any_columns: bool = False) -> list[Hole]:
    """The tables of a query, each with what changed in it; raises `WhyNot` when a change cannot be followed.

    With `new_inputs` a table that was not read before counts as one that has not changed; with `any_columns` a table
    may have had other columns.
    """
    standing = turn.standing
    if standing is None or not standing.identity or LOADER in standing.identity or standing.drifted:
        raise WhyNot("there is nothing to start from")
    recorded = _recorded(standing)
    for name, at in turn.node.table_calls:
        raise WhyNot(f"{name}() is a table function ({at})")
    lookups = {one.name for one in turn.node.lookups}
    for found, version in turn.inputs:
        if found.name in lookups:
            continue
        inlined = version.definition is not None and version.files is None and version.fresh is None
        if inlined and not new_inputs and not _is_same_view(recorded.get(found.key), version):
            raise WhyNot(f"the {'view' if found.view else 'expression of'} {found.name} changed")
        if found.travel is not None and not same_version(recorded.get(found.key), version):
            raise WhyNot(f"{found.key} moved")
    return [_hole(turn, index, name, recorded, new_inputs, any_columns) for index, name in enumerate(template.names)]


def present_holes(turn: Turn, template: Template) -> list[Hole] | None:
    """The tables of a query as they are now; None when one of them is not there, or is a view that sqb did not make."""
    found = []
    for index, name in enumerate(template.names):
        state = turn.state_of(name) if name in turn.project.nodes or name in turn.externals else None
        if state is None or state.is_view:
            return None
        found.append(Hole(index, turn.relation_of(name), "", state))
    return found


def hole_of(turn: Turn, index: int, name: str) -> Hole:
    """One table that a node reads, with what changed in it; raises `WhyNot` when that cannot be followed."""
    standing = turn.standing
    if standing is None or not standing.identity or standing.drifted:
        raise WhyNot("there is nothing to start from")
    return _hole(turn, index, name, _recorded(standing), new_inputs=False, any_columns=False)


def _is_same_view(recorded: list[Any] | None, version: Version) -> bool:
    """Whether a view is what it was, in the columns that are read of it."""
    return recorded is not None and (recorded[0] == version.definition or recorded[2:3] == [version.as_read])


def _recorded(standing: TableState) -> Mapping[str, list[Any]]:
    found = json.loads(standing.identity.get("sqb.sources", "{}"))
    return found if isinstance(found, dict) else {}


def _hole(
    turn: Turn, index: int, name: str, recorded: Mapping[str, list[Any]], new_inputs: bool, any_columns: bool
) -> Hole:
    source = turn.project.sources.get(name) if name not in turn.project.nodes else None
    if source is not None and source.path is not None:
        raise WhyNot(f"{name} is read from files, whose rows of before nobody keeps")
    state = turn.state_of(name)
    relation = turn.relation_of(name)
    if state is None or state.is_view:
        raise WhyNot(f"{name} is a view that sqb did not make")
    table = quote(turn.catalog, relation.schema, relation.name)
    lookup = next((one for one in turn.node.lookups if one.name == name), None)
    late_by = dict(lookup.slots).get(index, ()) if lookup is not None else ()
    if lookup is not None and not late_by:
        # A lookup is read at its newest version, and drives nothing.
        return Hole(index, relation, table, state)
    key = str(turn.key_of(name))
    then = recorded.get(key)
    if then is None or len(then) < 3:
        if new_inputs:
            return Hole(index, relation, table, state)
        raise WhyNot(f"{name} was not read before")
    version = next((v for i, v in turn.inputs if i.key == key), None)
    # For a query that shows where rows are stored, the same rows in other files are other rows.
    moves = reads_storage(turn.node, turn.project) and then[0] != state.snapshot_id
    read = reads_of(turn.node, turn.project).get(key, EVERYTHING)
    if version is not None and not moves and same_as_read(then, version, read):
        return Hole(index, relation, table, state)
    altered = then[2] != state.columns_token or tuple(state.columns) != tuple(state.snapshot_columns)
    if altered and not any_columns:
        raise WhyNot(f"the columns of {name} changed")
    snapshot, content = then[:2]
    if not moves and (snapshot == state.snapshot_id or snapshot in state.same_rows):
        return Hole(index, relation, table, state)
    if content is not None and not moves and not state.drifted and content == state.identity.get("sqb.content"):
        return Hole(index, relation, table, state)
    if snapshot is None or state.snapshot_id is None:
        raise WhyNot(f"{name} had no rows to compare with")
    between = _between(turn.lake.lineage(relation), snapshot, state.snapshot_id)
    how, rows = _how(between, snapshot, turn, relation)
    if late_by:
        return Hole(index, relation, table, state, snapshot, "late", rows, late_by=late_by)
    since = tuple(s.id for s in between) if between is not None and how != "compared" else ()
    return Hole(index, relation, table, state, snapshot, how, rows, since)


def _between(lineage: tuple[SnapshotInfo, ...], old: int, new: int) -> tuple[SnapshotInfo, ...] | None:
    """The snapshots after `old` up to `new`, newest first; None when one does not lead to the other."""
    ids = [s.id for s in lineage]
    if new not in ids or old not in ids or ids.index(old) < ids.index(new):
        return None
    return lineage[ids.index(new) : ids.index(old)]


def _how(between: tuple[SnapshotInfo, ...] | None, old: int, turn: Turn, relation: Relation) -> tuple[str, int | None]:
    """The cheapest exact way to see what changed, and a bound on how many rows did."""
    if between is None:
        if not turn.lake.has_snapshot(relation, old):
            raise WhyNot(f"the version of {relation} that it was made from has expired")
        return "compared", None
    known = [s for s in between if s.added_rows is not None and s.removed_rows is not None]
    rows = sum((s.added_rows or 0) + (s.removed_rows or 0) for s in known if s.operation != "replace")
    if any(s.delete_files for s in between) or len(known) < len(between):
        return "compared", None
    if not all(s.same_columns for s in between) or not _base(turn, relation, old).same_columns:
        # Files of another schema are only read right as part of their own snapshot.
        return "compared", rows
    if all(s.operation == "append" and not s.removed_rows for s in between):
        return "appended", rows
    return "changelog", rows


def _base(turn: Turn, relation: Relation, old: int) -> SnapshotInfo:
    return next(s for s in turn.lake.lineage(relation) if s.id == old)


def too_dear(holes: list[Hole], gate: CostGate) -> str | None:
    """Why following the changes would not pay; a change whose size nobody recorded counts as the whole table."""
    changed = (h.changed_rows if h.changed_rows is not None else h.state.rows or 0 for h in holes if h.changed)
    return gate.why_not(sum(h.state.rows or 0 for h in holes), sum(changed))


def choose_keys(facts: Facts, holes: list[Hole], versus: Versus) -> list[Key]:
    """The keys by which to restrict every table that changed: all that restrict the same tables."""
    changed = {h.index for h in holes if h.changed}
    fitting = [k for k in facts.keys if changed <= {hole for hole, _ in k.holes}]
    if not fitting:
        names = ", ".join(sorted({str(h.relation) for h in holes if h.changed}))
        raise WhyNot(f"no key of the query restricts {names}")

    def usefulness(key: Key) -> tuple[bool, int]:
        return (versus == "target" and bool(key.outputs), -len(key.holes))

    best = max(fitting, key=usefulness)
    tables = {hole for hole, _ in best.holes}
    return [k for k in fitting if {h for h, _ in k.holes} == tables and bool(k.outputs) == bool(best.outputs)][:4]


class Following:
    """One result being brought up to date: what is proven of its query and what changed beneath it."""

    def __init__(self, turn: Turn, session: Any, columns: list[str], versus: Versus, stack: ExitStack) -> None:
        self.turn, self.session, self.columns, self.versus, self.stack = turn, session, columns, versus, stack
        self.template, facts, self.holes = worth_following(turn)
        self.facts = facts.name_outputs(columns)
        self._deltas: dict[int, Any] | None = None

    def touched(self) -> Touched | None:
        """The keys that changes touch; None when the changes themselves go through a linear query."""
        found = _whole_partitions(self.turn, self.session, self.facts, self.holes, self.versus)
        if found is None and self.facts.kind != "linear":
            found = _touched(self.session, choose_keys(self.facts, self.holes, self.versus), self.deltas())
        return found

    def deltas(self) -> dict[int, Any]:
        """The net change of each table that changed."""
        if self._deltas is None:
            changed = [h for h in self.holes if h.changed]
            self._deltas = {h.index: _delta(self.session, h, self.facts, self.stack) for h in changed}
        return self._deltas

    def held(self, touched: Touched) -> Mapping[str, str] | None:
        """The columns of the target that hold the touched keys; None when the target is not to be compared with."""
        if self.versus != "target" or not all(k.outputs for k in touched.chosen.values()):
            return None
        return {n: k.outputs[0] for n, k in touched.chosen.items()}

    def evaluated(self, touched: Touched, version: Callable[[Hole], str]) -> Any:
        """The query over the touched keys only."""

        def fill(index: int) -> str:
            by = {n: c for n, k in touched.chosen.items() if (c := k.term(index)) is not None}
            text = version(self.holes[index])
            return touched.keys.restricted(text, by) if by else text

        frame = self.session.sql(self.template.render(fill))
        return frame.select(*[quote(c) for c in self.columns])

    def target_rows(self, touched: Touched, by: Mapping[str, str]) -> Any:
        """What the target holds for the touched keys."""
        standing = self.turn.standing
        assert standing is not None
        text = touched.keys.restricted(f"{self.turn.relation_text()} VERSION AS OF {standing.snapshot_id}", by)
        return self.session.sql(f"SELECT {', '.join(quote(c) for c in self.columns)} FROM {text}")

    def changes(self, touched: Touched | None) -> Any:
        """The net change of the result, as a frame that is computed once."""
        from sqb.spark import changes

        if touched is None:
            terms = _linear(self.session, self.template, self.facts, self.holes, self.deltas(), self.columns)
        else:
            by = self.held(touched)
            now = self.evaluated(touched, lambda h: h.now)
            then = self.evaluated(touched, lambda h: h.then) if by is None else self.target_rows(touched, by)
            terms = [changes.signed(now, 1, self.columns), changes.signed(then, -1, self.columns)]
        # Each term is computed by itself: Spark fails to plan some queries as part of a grouped union.
        frame = changes.all_of([self.stack.enter_context(changes.kept(term)) for term in terms])
        return self.stack.enter_context(changes.kept(changes.net(frame, self.columns)))


def _delta(session: Any, hole: Hole, facts: Facts, stack: ExitStack) -> Any:
    from sqb.spark import changes

    wanted = facts.columns[hole.index] or tuple(c.name for c in hole.state.columns)
    assert hole.old is not None and hole.state.snapshot_id is not None
    if hole.late_by:
        late = session.sql(f"SELECT {', '.join(quote(c) for c in wanted)} FROM {hole.late}")
        return stack.enter_context(changes.kept(changes.signed(late, 1, wanted)))
    how: Any = hole.how
    frame = changes.source_changes(session, hole.table, hole.old, hole.state.snapshot_id, wanted, how)
    return stack.enter_context(changes.kept(frame))


def _linear(
    session: Any, template: Template, facts: Facts, holes: list[Hole], deltas: Mapping[int, Any], columns: list[str]
) -> list[Any]:
    """Each table's changes in turn, with the tables before it as they are now and those after it as they were."""
    from sqb.spark import changes

    terms = []
    for index, delta in deltas.items():
        wanted = facts.columns[index] or tuple(c.name for c in holes[index].state.columns)
        for sign in (1,) if holes[index].how in ("appended", "late") else (1, -1):
            view = f"__sqb_{'came' if sign > 0 else 'went'}_{index}"
            changes.rows_of(delta, sign, wanted).createOrReplaceTempView(view)

            def fill(other: int, index: int = index, view: str = view) -> str:
                hole = holes[other]
                if other == index:
                    return f"(SELECT * FROM {view})"
                if other in facts.apart[index]:
                    return hole.nothing
                return hole.now if other < index else hole.then

            terms.append(changes.signed(session.sql(template.render(fill)), sign, columns))
    return terms


@dataclass(frozen=True, slots=True)
class Touched:
    """The keys by which a query is restricted, each under a name, and the values of them that changes touch."""

    chosen: Mapping[str, Key]
    keys: Any


def _whole_partitions(turn: Turn, session: Any, facts: Facts, holes: list[Hole], versus: Versus) -> Touched | None:
    """The touched partitions, when a key of the query is what every changed table is partitioned by.

    Manifests tell them, so that no row has to be read to find out what changed.
    """
    from sqb.spark import changes

    changed = [h for h in holes if h.changed]
    fitting = [k for k in facts.keys if {h.index for h in changed} <= {hole for hole, _ in k.holes}]
    if versus == "target":
        fitting = [k for k in fitting if k.outputs]
    # Rows that were only added need no look at what is there: a linear query just adds what they give.
    only_added = facts.kind == "linear" and all(h.how == "appended" for h in changed)
    if not fitting or only_added or not all(h.since for h in changed):
        return None
    if facts.kind == "linear" and versus == "result":
        return None
    partitions = {h.index: turn.lake.changed_partitions(h.relation, h.since) for h in changed}
    for key in fitting:
        values: list[Any] = []
        for hole in changed:
            found = {name.lower(): v for name, v in partitions[hole.index].items()}
            if str(key.term(hole.index)).lower() not in found:
                break
            values += found[str(key.term(hole.index)).lower()]
        else:
            unique = list(dict.fromkeys(values))
            if len(unique) <= changes.Keys.FEW:
                return Touched({"k0": key}, changes.Keys.of_literals(session, {"k0": unique}))
    return None


def _touched(session: Any, chosen: list[Key], deltas: Mapping[int, Any]) -> Touched:
    """The keys of the rows that changed."""
    from sqb.spark import changes

    named = {f"k{i}": key for i, key in enumerate(chosen)}
    parts = []
    for index, delta in deltas.items():
        parts.append(delta.selectExpr(*[f"{term_sql(str(k.term(index)))} AS {quote(n)}" for n, k in named.items()]))
    return Touched(named, changes.Keys(session, changes.all_of(parts).distinct(), "__sqb_keys"))


def facts_of(turn: Turn, template: Template, holes: list[Hole]) -> Facts:
    """What is proven of a node's query over the columns that its tables have."""
    from sqb.sql.delta.classify import classify

    if turn.node.unread:
        return Facts("opaque", f"the query could not be analysed ({turn.node.unread})")
    schemas = [{c.name: spark_type(json.loads(c.type)) for c in h.state.columns} for h in holes]
    python = (f for f in turn.project.functions if f.language == "python" and not f.is_table)
    return classify(template, schemas, frozenset(f.name for f in python if f.deterministic))


def worth_following(turn: Turn) -> tuple[Template, Facts, list[Hole]]:
    """The query, what is proven of it and what changed; raises `WhyNot` when a rebuild is needed or cheaper."""
    refresh = turn.node.settings.get("refresh", "auto")
    if turn.planned.reason not in (Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED):
        raise WhyNot(str(turn.planned.reason).lower())
    if refresh == "full":
        raise WhyNot("refresh full")
    template = template_of(turn.node, turn.project, turn.live, turn.at_version)
    holes = holes_of(turn, template)
    facts = facts_of(turn, template, holes)
    if facts.kind == "opaque":
        raise WhyNot(f"the query is opaque: {facts.why}")
    if refresh != "incremental" and (reason := too_dear(holes, turn.workspace.gate)):
        raise WhyNot(reason)
    if facts.kind == "keyed":
        choose_keys(facts, holes, "result")
    content = turn.standing.identity.get("sqb.content", "") if turn.standing is not None else ""
    if turn.node.kind in _AS_THE_RESULT and not content.startswith("n:"):
        raise WhyNot("its content was never recorded")
    return template, facts, holes
