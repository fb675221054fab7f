"""What following changes is estimated to read, and the operators as people see them."""

from __future__ import annotations

from dataclasses import replace

from sqb.plan.refresh.cost import CostEstimate, Sizes
from sqb.plan.refresh.describe_operators import find_advice, list_operator_lines
from sqb.plan.refresh.states import list_additive_operators
from sqb.project.config.settings import CostGate
from sqb.sql.delta.proposal import propose
from support.pieces import facts_of

TABLES = {"f": {"id": "int", "dk": "int", "x": "int"}, "d": {"dk": "int", "year": "int"}}
STAR = "SELECT d.year, sum(f.x) AS s FROM raw.f AS f JOIN raw.d AS d ON f.dk = d.dk GROUP BY d.year"
ROWS = {0: 1_000_000, 1: 100}


def estimate(sql: str, changed: dict[int, int], with_states: bool, result: int = 10) -> CostEstimate:
    facts = facts_of(sql, TABLES)[1]
    assert facts.tree is not None
    states = list_additive_operators(facts) if with_states else frozenset()
    proposal = propose(facts.tree, frozenset(changed), states, by_target=True)
    assert proposal.obstacle is None
    return CostEstimate(facts.tree, proposal, Sizes(ROWS, changed, changed, result))


def test_new_facts_read_their_dimensions_and_a_changed_dimension_reads_the_facts() -> None:
    facts, dimension = estimate(STAR, {0: 50}, True), estimate(STAR, {1: 5}, True)
    assert facts.rebuild == dimension.rebuild == 1_000_110
    # The changes, the dimension, and the figures of ten groups, read and written.
    assert facts.refresh == 50 + 100 + 20
    assert dimension.refresh == 5 + 1_000_000 + 20


def test_without_figures_touched_groups_are_read_again() -> None:
    assert estimate(STAR, {0: 50}, False).refresh == 50 + 100 + 1_000_100


def test_what_an_outer_join_touches_is_read_at_both_versions() -> None:
    sql = "SELECT f.id, d.year FROM raw.f AS f LEFT JOIN raw.d AS d ON f.dk = d.dk"
    assert estimate(sql, {0: 50}, False).refresh == 50 + 100
    assert estimate(sql, {1: 5}, False).refresh == 5 + 2 * 1_000_100


def test_what_is_evaluated_before_and_after_is_joined_twice_as_well() -> None:
    touched = "SELECT f.id, d.year FROM raw.f AS f LEFT JOIN raw.d AS d ON f.dk = d.dk"
    cost = estimate(touched, {1: 5}, False)
    assert cost.refresh_work > cost.refresh + 1_000_000
    assert estimate(touched, {0: 50}, False).refresh_work == 50 + 100
    # At the top the keys that are touched are few, and restrict what is joined and grouped.
    groups = estimate(STAR, {0: 50}, False)
    assert groups.refresh_work == groups.refresh


def test_of_a_table_that_touches_others_only_what_is_like_its_changes_is_read() -> None:
    """Both by the ranges of the column that is compared: of the other table, and of the changed one itself."""
    sql = "SELECT d.year FROM raw.d AS d WHERE EXISTS (SELECT 1 FROM raw.f AS f WHERE f.dk = d.dk AND f.x > d.year)"
    facts = facts_of(sql, TABLES)[1]
    assert facts.tree is not None
    changed, fact, day = {1: 5}, (1, "dk"), (0, "dk")
    sizes = Sizes({0: 1_000, 1: 1_000_000}, changed, changed, 10, matching={(day, fact): 40, (fact, fact): 20_000})
    bounded = CostEstimate(facts.tree, propose(facts.tree, frozenset({1})), sizes)
    assert bounded.refresh == 5 + 2 * (40 + 20_000)
    whole = CostEstimate(facts.tree, bounded.proposal, replace(sizes, matching={}))
    assert whole.refresh == 5 + 2 * 1_001_000 and bounded.refresh_work < whole.refresh_work / 20


def test_every_relation_that_a_statement_reads_takes_time_to_plan() -> None:
    joined = "SELECT f.x FROM raw.f AS f JOIN raw.d AS d ON f.dk = d.dk JOIN raw.d AS e ON e.year = d.year"
    facts = facts_of(joined, TABLES)[1]
    assert facts.tree is not None
    proposal = propose(facts.tree, frozenset({0}))
    cost = CostEstimate(facts.tree, proposal, Sizes({0: 0, 1: 0, 2: 0}, {0: 0}, {0: 0}, step=1_000))
    # One term of three relations, and a rebuild that reads as many.
    assert (cost.refresh_work, cost.rebuild_work) == (1_000 * (14 + 3 * 1.6), 1_000 * (4 + 3 * 1.6))


def test_figures_of_few_groups_take_fewer_steps() -> None:
    def count_steps(sql: str, few: int, result: int = 10, has_states: bool = True) -> float:
        facts = facts_of(sql, TABLES)[1]
        assert facts.tree is not None
        states = list_additive_operators(facts) if has_states else frozenset()
        sizes = Sizes({0: 1_000, 1: 1_000}, {0: 0}, {0: 0}, result, step=10**9, few=few)
        return round(
            CostEstimate(facts.tree, propose(facts.tree, frozenset({0}), states), sizes).refresh_work / 10**9, 3
        )

    by_year, totals = 2 * 1.6, 1.6
    assert count_steps(STAR, few=10) == 10 + by_year
    assert count_steps(STAR, few=9) == 14 + by_year
    # Nothing is known of how many there are before the first build.
    assert count_steps(STAR, few=10, result=0) == 14 + by_year
    assert count_steps("SELECT sum(f.x) AS s FROM raw.f AS f", few=1, result=0) == 10 + totals
    # Where groups are evaluated again there are no figures.
    assert count_steps(STAR, few=10, has_states=False) == 14 + by_year


def test_operators_above_figures_read_those() -> None:
    sql = f"SELECT year, rank() OVER (PARTITION BY year % 2 ORDER BY s) AS place FROM ({STAR})"
    cost = estimate(sql, {0: 50}, True)
    assert cost.refresh < cost.rebuild / 4
    # Nor does what is computed above them join and group the tables again.
    assert cost.refresh_work < cost.rebuild_work / 4


def test_operators_are_drawn_from_the_root_down() -> None:
    facts = facts_of(STAR, TABLES)[1]
    assert facts.tree is not None
    proposal = propose(facts.tree, frozenset({0}), list_additive_operators(facts))
    cost = CostEstimate(facts.tree, proposal, Sizes(ROWS, {0: 50}, {0: 50}))
    lines = list_operator_lines(facts.tree, proposal, cost, {0: "raw.f", 1: "raw.d"}, STAR)
    assert [(line.depth, line.what, line.rule, line.changed) for line in lines] == [
        (0, "GROUP BY d.year", "state", ("raw.f",)),
        (1, "raw.f", "changes", ("raw.f",)),
        (1, "raw.d", "", ()),
    ]
    assert lines[0].to_data()["rule"] == "state" and lines[2].says == "unchanged"
    assert (lines[0].rows_changed, lines[2].rows_changed) == (50, 0)


def test_what_is_read_again_is_drawn_once() -> None:
    """Forty CTEs of which each reads the one before it twice: a line for every way through them would never end."""
    ctes = ["c0 AS (SELECT dk, x FROM raw.f)"]
    ctes += [f"c{i} AS (SELECT a.dk, b.x FROM c{i - 1} AS a JOIN c{i - 1} AS b ON a.dk = b.dk)" for i in range(1, 40)]
    facts = facts_of(f"WITH {', '.join(ctes)} SELECT dk, x FROM c39", TABLES)[1]
    assert facts.tree is not None
    proposal = propose(facts.tree, frozenset({0}))
    cost = CostEstimate(facts.tree, proposal, Sizes(ROWS, {0: 50}, {0: 50}))
    assert cost.rebuild == 2**39 * ROWS[0]
    lines = list_operator_lines(facts.tree, proposal, cost, {0: "raw.f"})
    assert len(lines) == 2 * 39 + 3
    assert [line.says for line in lines[-2:]] == ["as above"] * 2
    assert lines[0].advice == "make a table of a view or CTE that is read several times"


def test_an_obstacle_comes_with_what_could_be_written_instead() -> None:
    facts = facts_of("SELECT id, rank() OVER (ORDER BY x) AS r FROM raw.f", TABLES)[1]
    assert facts.tree is not None
    proposal = propose(facts.tree, frozenset({0}))
    cost = CostEstimate(facts.tree, proposal, Sizes(ROWS, {0: 50}, {0: 50}))
    line = list_operator_lines(facts.tree, proposal, cost, {0: "raw.f"}, "")[0]
    assert line.why == "a window function without PARTITION BY" and line.advice.startswith("PARTITION BY a column")
    assert find_advice("FULL JOIN in a subquery").startswith("join both tables in a CTE")
    assert find_advice("current_date() is volatile").startswith("take the value from a variable")
    assert find_advice("something else") == ""


def weigh(sql: str, rows: int, changed: dict[int, int], read: dict[int, int] | None = None) -> float:
    """A refresh through figures of groups against a rebuild, with the settings that a project has."""
    facts = facts_of(sql, TABLES)[1]
    assert facts.tree is not None
    proposal = propose(facts.tree, frozenset(changed), list_additive_operators(facts), by_target=True)
    sizes = Sizes({0: rows, 1: 1_000}, changed, read or changed, 10, CostGate().min_rows)
    estimate = CostEstimate(facts.tree, proposal, sizes)
    return estimate.refresh_work / estimate.rebuild_work


def test_a_refresh_takes_steps_that_a_cheap_rebuild_does_not_pay_for() -> None:
    """As measured: the aggregate over dimensions pays at a few million rows, the totals of one table much later."""
    totals = "SELECT count(*) AS n, sum(f.x) AS s FROM raw.f AS f"
    few = {0: 5_000}
    assert weigh(STAR, 1_000_000, few) > 1 > 0.7 > weigh(STAR, 5_000_000, few) > weigh(STAR, 20_000_000, few)
    assert weigh(totals, 5_000_000, few) > 0.9 > weigh(totals, 20_000_000, few)
    # A filter that leaves little makes the rebuild cheaper still.
    assert weigh(f"{totals} WHERE f.id > 5", 6_000_000, few) > weigh(totals, 6_000_000, few)


def test_rows_that_deletes_hide_are_read_from_their_files() -> None:
    """Changes all over a table with delete files are found by reading all of it."""
    assert weigh(STAR, 20_000_000, {0: 5_000}, {0: 20_000_000}) > 2 * weigh(STAR, 20_000_000, {0: 5_000})
