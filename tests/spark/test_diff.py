"""What is built against what would be, on real tables: rows by key and as multisets, columns, snapshots, targets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sqb.build.observe.lake import observe_lake
from sqb.errors.base import SqbError
from sqb.errors.build import QueryFailed
from sqb.errors.call import CallError, NoSuchSnapshot, NotBuilt
from sqb.inspect.diff import DiffResult, compare_snapshots, compare_targets, compare_with_query, compute_diff
from sqb.lake.open import open_lake
from sqb.workspace import open_workspace
from support.sandbox import Sandbox


def ask(
    sandbox: Sandbox,
    name: str,
    key: tuple[str, ...] = (),
    limit: int = 10,
    snapshots: tuple[str, str | None] | None = None,
    against: str | None = None,
    target: str | None = None,
) -> DiffResult:
    workspace = open_workspace(sandbox.folder, target)
    lake = open_lake(workspace)
    node = workspace.project.nodes[name]
    if against is not None:
        question = compare_targets(workspace, open_workspace(sandbox.folder, against), node, key)
    elif snapshots is not None:
        question = compare_snapshots(workspace, lake, observe_lake(workspace, lake), node, *snapshots, key)
    else:
        question = compare_with_query(workspace, lake, observe_lake(workspace, lake), node, key)
    session = sandbox._sessions.take()
    try:
        differences = compute_diff(question, session, limit, workspace)
    finally:
        sandbox._sessions.give_back(session)
    json.dumps(differences.to_data(), allow_nan=False)
    return differences


def counts(result: DiffResult) -> tuple[int, int, int]:
    return (result.rows.added, result.rows.removed, result.rows.changed)


def refused(kind: type[SqbError], sandbox: Sandbox, name: str, **more: Any) -> SqbError:
    with pytest.raises(kind) as caught:
        ask(sandbox, name, **more)
    assert caught.value.hint or kind is QueryFailed
    return caught.value


RICH = "id, d, tags, attrs, pair"


def test_rows_of_every_type_by_key_and_columns(sandbox: Sandbox) -> None:
    sandbox.sql(
        "CREATE TABLE raw.t (id BIGINT, d DOUBLE, tags ARRAY<STRING>, attrs MAP<STRING, INT>,"
        " pair STRUCT<a: INT, b: INT>)"
    )
    row = "array('x', NULL), map('a', 1, 'b', NULL), named_struct('a', 1, 'b', NULL)"
    other = "array('x', NULL), map('b', NULL, 'a', 1), named_struct('a', NULL, 'b', 1)"
    sandbox.sql(f"INSERT INTO raw.t SELECT 1, double('NaN'), {row}")
    sandbox.sql(f"INSERT INTO raw.t SELECT 2, NULL, {row}")
    sandbox.sql(f"INSERT INTO raw.t SELECT 3, 0.5, {row}")
    sandbox.write("models/s/m.sql", f"-- @kind: merge\n-- @unique_key: id\nSELECT {RICH} FROM raw.t")
    refused(NotBuilt, sandbox, "s.m")
    assert sandbox.build().ok
    answer = ask(sandbox, "s.m")
    assert answer.same and (answer.before.rows, answer.now.rows) == (3, 3)

    # The map of 2 has other order only; its struct differs. 3 goes, 4 comes, and 1 stays with its NaN.
    sandbox.sql("DELETE FROM raw.t WHERE id IN (2, 3)")
    sandbox.sql(f"INSERT INTO raw.t SELECT 2, NULL, {other}")
    sandbox.sql(f"INSERT INTO raw.t SELECT 4, double('Infinity'), {row}")
    answer = ask(sandbox, "s.m")
    assert counts(answer) == (1, 1, 1) and answer.key == ("id",) and (answer.before.rows, answer.now.rows) == (3, 3)
    assert answer.rows.by_column == {"pair": 1}
    (changed,) = answer.rows.changed_rows
    assert (dict(changed.key), dict(changed.changes)) == (
        {"id": 2},
        {"pair": ({"a": 1, "b": None}, {"a": None, "b": 1})},
    )
    assert [r["id"] for r in answer.rows.added_rows] == [4] and answer.rows.added_rows[0]["d"] == "inf"
    assert answer.rows.removed_rows == (
        {"id": 3, "d": 0.5, "tags": ["x", None], "attrs": {"a": 1, "b": None}, "pair": {"a": 1, "b": None}},
    )
    assert counts(ask(sandbox, "s.m", key=("attrs", "ID"))) == (1, 1, 1), "a map can be part of a key"
    assert "did you mean 'id'" in str(refused(CallError, sandbox, "s.m", key=("idd",)).hint)
    assert sandbox.plan().summary["run"] == 1, "nothing was written"

    sandbox.write(
        "models/s/m.sql",
        "-- @kind: merge\n-- @unique_key: id\n"
        "SELECT CAST(id AS INT) AS ID, CAST(d AS STRING) AS d, 1 AS one, tags FROM raw.t",
    )
    answer = ask(sandbox, "s.m")
    assert [str(c) for c in answer.columns] == [
        "id bigint → int",
        "d double → string",
        "attrs map<string,int> removed",
        "pair struct<a:int,b:int> removed",
        "one int added",
    ]
    assert counts(answer) == (1, 1, 0) and answer.compared == ("ID", "d", "tags") and not answer.same
    sandbox.write("models/s/m.sql", "SELECT 1 AS nothing_in_common")
    answer = ask(sandbox, "s.m")
    assert answer.rows is None and (answer.before.rows, answer.now.rows) == (3, 1) and not answer.same
    sandbox.write("models/s/m.sql", "SELECT\n  nope FROM raw.t")
    error = refused(QueryFailed, sandbox, "s.m")
    assert str(error.at) == "models/s/m.sql:2:3"


def test_multisets_snapshots_views_seeds_and_targets(sandbox: Sandbox) -> None:
    toml = 'name = "s"\ndefault_target = "dev"\n[targets.dev]\nschema = "dev"\n[targets.prod]\nschema = "prod"\n'
    sandbox.write("sqlbuild_project.toml", toml)
    sandbox.write("seeds/people.csv", "id,name,on\n1,Ada,2026-01-01\n2,,\n")
    sandbox.write("seeds/nums.csv", "n\n1\n1\n1\n2\n")
    sandbox.write("models/dup.sql", "SELECT n FROM nums")
    sandbox.write("models/v.sql", "-- @kind: view\nSELECT id, name FROM people")
    assert sandbox.build().ok and sandbox.build(target="prod").ok
    assert all(ask(sandbox, name).same for name in ("seeds.people", "default.dup", "default.v"))
    assert ask(sandbox, "default.dup", against="prod").same

    sandbox.write("seeds/nums.csv", "n\n1\n2\n2\n3\n")
    sandbox.write("seeds/people.csv", "id,name,on\n1,Ada,2026-01-02\n2,,\n")
    answer = ask(sandbox, "seeds.people", key=("id",))
    assert counts(answer) == (0, 0, 1) and dict(answer.rows.changed_rows[0].changes) == {
        "on": ("2026-01-01", "2026-01-02")
    }
    stale = ask(sandbox, "default.dup")
    assert stale.same and stale.notes == ("seeds.nums, which it reads, is out of date: its present rows are read",)
    assert sandbox.build(select=["seeds.nums"]).ok
    answer = ask(sandbox, "default.dup")
    assert counts(answer) == (2, 2, 0) and answer.key == () and (answer.before.rows, answer.now.rows) == (4, 4)
    assert ([dict(r) for r in answer.rows.added_rows], [dict(r) for r in answer.rows.removed_rows]) == (
        [{"n": 2}, {"n": 3}],
        [{"n": 1}],
    )
    # Of a key with several rows what came is paired with what went.
    many = ask(sandbox, "default.dup", key=("n",))
    assert counts(many) == (2, 2, 0) and not many.rows.unique and many.rows.by_column is None

    sandbox.edit("models/v.sql", "SELECT id, name", "SELECT id, upper(name) AS name")
    answer = ask(sandbox, "default.v", key=("id",))
    assert counts(answer) == (0, 0, 1) and dict(answer.rows.changed_rows[0].changes) == {"name": ("Ada", "ADA")}
    first = sandbox.lake().state.read_node_results(["dev"], node_name="default.dup")[0]
    assert sandbox.build().ok
    assert counts(ask(sandbox, "default.dup", against="prod")) == (2, 2, 0)
    for name in (first.run_id, str(json.loads(first.metadata)["snapshot_id"])):
        assert counts(ask(sandbox, "default.dup", snapshots=(name, None))) == (2, 2, 0)
        assert ask(sandbox, "default.dup", snapshots=(name, name)).same
    error = refused(NoSuchSnapshot, sandbox, "default.dup", snapshots=("123", None))
    assert error.message == 'dev.dup has no snapshot "123"' and first.run_id in str(error.hint)
    assert "a view, which has no snapshots" in refused(CallError, sandbox, "default.v", snapshots=("1", None)).message
    assert "both sides" in refused(CallError, sandbox, "default.v", against="dev").message
    sandbox.write("models/below.sql", "SELECT * FROM new")
    sandbox.write("models/new.sql", "SELECT 1 AS x")
    assert "default.below is not built" in refused(NotBuilt, sandbox, "default.below").message
    assert "in the target dev" in refused(NotBuilt, sandbox, "default.new", against="dev", target="prod").message


def test_kinds_that_keep_rows(sandbox: Sandbox) -> None:
    sandbox.write("seeds/t.csv", "id,v\n1,a\n2,b\n")
    sandbox.write("models/s/log.sql", "-- @kind: append\nSELECT id, v FROM t")
    sandbox.write("models/s/hist.sql", "-- @kind: scd2\n-- @unique_key: id\nSELECT id, v FROM t")
    sandbox.write(
        "models/s/kept.sql", "-- @kind: merge\n-- @unique_key: id\n-- @on_source_delete: keep\nSELECT id, v FROM t"
    )
    sandbox.write("models/s/groups.sql", "-- @kind: tracked\n-- @group_key: v\nSELECT id, v FROM t")
    assert sandbox.build().ok
    sandbox.write("seeds/t.csv", "id,v\n2,c\n3,d\n")
    assert sandbox.build(select=["seeds.t"]).ok
    answer = ask(sandbox, "s.log")
    assert counts(answer) == (2, 2, 0) and "a log keeps its rows" in answer.notes[0]
    answer = ask(sandbox, "s.hist")
    assert counts(answer) == (1, 1, 1) and not answer.columns, "the columns that a history adds are no difference"
    answer = ask(sandbox, "s.kept")
    assert counts(answer) == (1, 0, 1) and answer.now.rows == 3
    answer = ask(sandbox, "s.groups")
    assert counts(answer) == (2, 2, 0) and answer.key == ("v",)
    before = sandbox.lake().state.read_node_results(["s"], node_name="s.hist")[0].run_id
    assert sandbox.build().ok
    assert ask(sandbox, "s.kept").same and ask(sandbox, "s.hist").same
    answer = ask(sandbox, "s.hist", snapshots=(before, None))
    assert counts(answer) == (2, 0, 2) and answer.key == ("id", "valid_from")
    assert answer.rows.by_column == {"valid_to": 2, "is_current": 2}
