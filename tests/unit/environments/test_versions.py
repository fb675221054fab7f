"""Versions: what makes a table another one, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sqb import identity
from sqb.build.observe import lake
from sqb.compile.model import Hook, Project
from sqb.environments import versions
from sqb.environments.model import Binding, Ref, Version
from sqb.environments.naming import (
    build_logical_relation,
    build_physical_relation,
    check_environment_name,
    parse_logical_relation,
)
from sqb.environments.staleness import check_stale_upstreams, find_removed, find_stale, find_stale_upstreams
from sqb.environments.versions import (
    build_physical_project,
    compute_versions,
    find_unchanged_versions,
    resolve_input_name,
)
from sqb.errors.base import SqbError
from sqb.names import At, Relation
from sqb.plan.model import Reason
from unit.plan.worlds import node, project

A, B, C, D = "s.a", "s.b", "s.c", "s.d"


def world(query: str = "q", source: str = "raw.x", **settings: str) -> Project:
    result = project(
        node(A, "raw.x", query=query, **settings), node(B, A), node(C, B), node(D, "raw.x"), externals=("raw.x",)
    )
    external = replace(result.externals["raw.x"], relation=Relation.parse(source))
    return replace(result, externals={"raw.x": external})


def bound(of: Project) -> dict[str, Ref]:
    """An environment that shows the project as it is."""
    physical = build_physical_project(of)
    return {
        n.name: Ref(
            Binding(
                n.name,
                "model",
                n.kind,
                n.local_hash,
                n.version_hash,
                n.relation,
                upstream={u: physical.nodes[u].version_hash for u in n.upstream if u in physical.nodes},
            )
        )
        for n in physical
    }


def known(of: Project, canonical: str = "new") -> dict[tuple[str, str], Version]:
    return {
        (n.name, n.version_hash): Version(
            n.name,
            n.version_hash,
            n.local_hash,
            n.query_hash,
            n.config_hash,
            canonical,
            json.dumps(n.local_hash),
            dict(n.functions),
            n.relation,
            sources=versions.compute_sources_token(of.nodes[n.name], of),
        )
        for n in build_physical_project(of)
    }


def test_names() -> None:
    relation = build_physical_relation(Relation("dev", "fact_orders"), "8f3a9c12345")
    assert str(relation) == "dev__sqb_physical.fact_orders__v_8f3a9c12"
    assert parse_logical_relation(relation) == Relation("dev", "fact_orders")
    assert parse_logical_relation(Relation("dev", "fact_orders__v_8f3a9c12")) is None
    assert str(build_logical_relation(Relation("dev", "x"), "pr_123", None)) == "dev__pr_123.x"
    assert str(build_logical_relation(Relation("dev", "x"), "prod", "prod")) == "dev.x"


@pytest.mark.parametrize("name", ["", "PR", "1a", "a-b", "sqb_physical", "a" * 65, "ä", "a b", "a.b"])
def test_names_that_cannot_be_part_of_a_schema_are_refused(name: str) -> None:
    with pytest.raises(SqbError) as error:
        check_environment_name(name)
    assert error.value.code == "SQB-V001"


def test_a_change_reaches_everything_below_and_nothing_else() -> None:
    before, after = compute_versions(world()), compute_versions(world("other"))
    assert {n for n in before if before[n] != after[n]} == {A, B, C}


def test_a_source_that_is_another_table_is_another_version() -> None:
    before, after = compute_versions(world()), compute_versions(world(source="raw.y"))
    assert {n for n in before if before[n] != after[n]} == {A, B, C, D}


def test_tables_hooks_and_state_are_those_of_versions() -> None:
    hook = Hook("post", "OPTIMIZE x", (), (Relation("s", "a"), Relation("raw", "x")), "OPTIMIZE x", At("a.sql"), ())
    direct = world()
    direct = replace(direct, nodes={**direct.nodes, A: replace(direct.nodes[A], hooks=(hook,))})
    physical_project = build_physical_project(direct)
    assert physical_project.schemas == ("s__sqb_physical",)
    assert physical_project.nodes[A].hooks[0].relations == (physical_project.nodes[A].relation, Relation("raw", "x"))
    assert parse_logical_relation(physical_project.nodes[B].relation) == Relation("s", "b")


def test_what_an_input_was_called_in_another_version_is_found_again() -> None:
    old, new = build_physical_project(world()), build_physical_project(world("other"))
    by_logical = {n.relation: n.name for n in world()}
    assert resolve_input_name(str(old.nodes[A].relation), new, by_logical) == str(new.nodes[A].relation)
    assert resolve_input_name("raw.x", new, by_logical) == "raw.x"
    assert resolve_input_name("view s.a", new, by_logical) == "view s.a"
    assert resolve_input_name("s__sqb_physical.gone__v_12345678", new, by_logical) == "s__sqb_physical.gone__v_12345678"


def test_nothing_is_stale_where_everything_is_bound() -> None:
    assert find_stale(build_physical_project(world()), bound(world()), {}) == {}


def test_roots_are_told_from_what_stands_below_them() -> None:
    stale = find_stale(build_physical_project(world("other")), bound(world()), known(world()))
    assert {s.name: (s.root, s.reason) for s in stale.values()} == {
        A: (True, Reason.QUERY_CHANGED),
        B: (False, Reason.UPSTREAM_CHANGED),
        C: (False, Reason.UPSTREAM_CHANGED),
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config": "d"}, Reason.CONFIG_CHANGED),
        ({"functions": {"f": "2"}}, Reason.FUNCTION_CHANGED),
        ({"query": "r"}, Reason.QUERY_CHANGED),
    ],
)
def test_why_a_root_is_stale(change: dict[str, str], reason: Reason) -> None:
    before, after = project(node(A, functions={"f": "1"})), project(node(A, **{"functions": {"f": "1"}, **change}))  # type: ignore[arg-type]
    stale = find_stale(build_physical_project(after), bound(before), known(before))
    assert stale[A].reason is reason and stale[A].root


def test_a_node_that_the_environment_does_not_have_is_a_root() -> None:
    refs = {n: r for n, r in bound(world()).items() if n != D}
    stale = find_stale(build_physical_project(world()), refs, {})
    assert list(stale) == [D] and stale[D].reason is Reason.FIRST_RUN and stale[D].root
    assert find_removed(build_physical_project(project(node(A))), bound(world())) == (B, C, D)


def test_stale_nodes_above_a_selection() -> None:
    physical = build_physical_project(world("other"))
    stale = find_stale(physical, bound(world()), {})
    assert find_stale_upstreams(physical, {C}, stale) == [A, B]
    assert find_stale_upstreams(physical, {C, A}, stale) == [B]
    assert find_stale_upstreams(physical, {D}, stale) == []
    with pytest.raises(SqbError, match=r"selected models have stale required upstreams: s\.a, s\.b"):
        check_stale_upstreams([A, B])


@pytest.fixture
def newer_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Today's code gives the definitions of `world()` the hashes of `world("renewed")`."""
    renewed = {n.local_hash: world("renewed").nodes[n.name].local_hash for n in world()}
    monkeypatch.setattr(lake, "compute_renewed_hash", lambda text: renewed.get(json.loads(text)))
    monkeypatch.setattr("sqb.sql.analysis.canonical.compute_canonical_stamp", lambda: "new")


def test_other_code_makes_no_other_versions(newer_code: None) -> None:
    refs = bound(world())
    remaining = find_unchanged_versions(world("renewed"), refs, known(world(), canonical="old"))
    assert remaining.keys() == {A, B, C, D}
    assert find_stale(build_physical_project(world("renewed"), remaining), refs, {}) == {}


def test_other_code_hides_no_change(newer_code: None) -> None:
    refs = bound(world())
    changed = world("changed")
    remaining = find_unchanged_versions(changed, refs, known(world(), canonical="old"))
    assert A not in remaining
    assert find_stale(build_physical_project(changed, remaining), refs, {}).keys() == {A, B, C}
    moved = find_unchanged_versions(world("renewed", source="raw.y"), refs, known(world(), canonical="old"))
    assert moved.keys() == {B, C}


def test_the_same_code_keeps_nothing(newer_code: None) -> None:
    assert find_unchanged_versions(world("renewed"), bound(world()), known(world(), canonical="new")) == {}


def test_versions_are_hashes_of_their_parts() -> None:
    versions = compute_versions(project(node(A)))
    assert versions[A] == identity.compute_version_hash(node(A).local_hash, ("",))
