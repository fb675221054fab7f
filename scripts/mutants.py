"""Whether the tests notice a wrong rule: each mutant is one mistake in a copy of the sources, and must fail a test.

Prints a table of rule, mutant and the first test that failed; exits with 1 if a mutant survives.
Words on the command line choose the mutants of these rules. The plain queries of a mutant's own rule are tried first,
then all of them, then the tests of the rules.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import duckdb as duckdb  # noqa: E402
import sqlglot as sqlglot  # noqa: E402

from support.plain_queries import PLAIN  # noqa: E402

_RULES = "tests/properties/test_delta_rules.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake: in a module, one text instead of another."""

    rule: str
    name: str
    module: str
    text: str
    instead: str


_PLACES, _STATE, _SETS = "rules/places.py", "rules/add_up.py", "rules/distinct_rows.py"
_GROUPS, _DESIGN, _READER = "rules/touch_groups.py", "aggregates/state_design.py", "operators/read.py"
_PARTITIONS, _JOINS, _AGGREGATION = "rules/touch_partitions.py", "operators/joins.py", "aggregates/read.py"

MUTANTS = (
    Mutant(
        "changes",
        "every change counts twice",
        "rules/read_table.py",
        "return evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)",
        "d = evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)\n"
        '    return evaluation.engine.sum_changes([d, d], evaluation.get_frame(index, "new"))',
    ),
    Mutant(
        "changes",
        "wrong sign",
        "rules/read_table.py",
        "return evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)",
        "d = evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)\n"
        "    return evaluation.engine.run("
        "f'SELECT * REPLACE (-__sqb_multiplicity AS __sqb_multiplicity) FROM {evaluation.name(d)}')",
    ),
    Mutant(
        "changes",
        "weight lost",
        "rules/read_table.py",
        "return evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)",
        "d = evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)\n"
        "    return evaluation.engine.run("
        "f'SELECT * REPLACE (sign(__sqb_multiplicity) AS __sqb_multiplicity) FROM {evaluation.name(d)}')",
    ),
    Mutant(
        "changes",
        "rows that went are not seen",
        "rules/read_table.py",
        "return evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)",
        "d = evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)\n"
        "    return evaluation.engine.run(f'SELECT * FROM {evaluation.name(d)} WHERE __sqb_multiplicity > 0')",
    ),
    Mutant("union", "a branch lost", "rules/union_rows.py", "places(index)]", "places(index)[:1]]"),
    Mutant(
        "union", "a branch twice", "rules/union_rows.py", "sum_changes(deltas,", "sum_changes([deltas[0], *deltas],"
    ),
    Mutant(
        "union",
        "wrong sign",
        "rules/union_rows.py",
        "    return evaluation.engine.sum_changes(deltas,",
        "    deltas = [evaluation.engine.run("
        "f'SELECT * REPLACE (-__sqb_multiplicity AS __sqb_multiplicity) FROM {evaluation.name(d)}') for d in deltas]\n"
        "    return evaluation.engine.sum_changes(deltas,",
    ),
    Mutant("distinct", "wrong signs", _SETS, '(("new", 1), ("old", -1))', '(("new", -1), ("old", 1))'),
    Mutant("distinct", "rows of one changed side alone", _SETS, "for child in changed]", "for child in changed[:1]]"),
    Mutant("distinct", "new for old", _SETS, "get_frame(place.input, version)", 'get_frame(place.input, "new")'),
    Mutant(
        "distinct",
        "restriction dropped on one side",
        _SETS,
        "engine.restrict(frame, rows, like)",
        'engine.restrict(frame, rows, like) if version == "new" else frame',
    ),
    Mutant("distinct", "DISTINCT lost", "operators/model.py", "SELECT DISTINCT * FROM", "SELECT * FROM"),
    Mutant("distinct", "ALL lost", "operators/model.py", "'ALL ' if self.keeps_duplicates else ''", "''"),
    Mutant("rows", "weight lost", "rules/join_rows.py", '{term.weight} AS __sqb_weight"', '1L AS __sqb_weight"'),
    Mutant(
        "rows",
        "wrong sign",
        "rules/join_rows.py",
        '{term.weight} AS __sqb_weight"',
        '-({term.weight}) AS __sqb_weight"',
    ),
    Mutant(
        "rows",
        "groups taken for rows",
        "rules/join_rows.py",
        "block is None or block.is_grouping or block.windows",
        "block is None or block.windows",
    ),
    Mutant("rows", "old for new in the sum", _PLACES, '"new" if i < number else "old"', '"old"'),
    Mutant("rows", "new for old in the sum", _PLACES, '"new" if i < number else "old"', '"new"'),
    Mutant("rows", "the last place lost", _PLACES, "for number in changed:", "for number in changed[:-1] or changed:"),
    Mutant("outer", "wrong sign of what was", _PLACES, '("old", "-1L")', '("old", "1L")'),
    Mutant("outer", "what was is not taken away", _PLACES, ', ("old", "-1L"))', ",)"),
    Mutant(
        "outer",
        "restriction dropped on one side",
        _PLACES,
        "Term(versions, filled, condition, weight)",
        'Term(versions, filled, condition if weight == "1L" else "", weight)',
    ),
    Mutant(
        "outer",
        "new for old",
        _PLACES,
        "versions = _with(base, number, version)",
        'versions = _with(base, number, "new")',
    ),
    Mutant(
        "outer",
        "rows that went touch nothing",
        _PLACES,
        "WHERE {source.on})",
        "WHERE __sqb_multiplicity > 0 AND ({source.on}))",
    ),
    Mutant(
        "outer",
        "taken for linear",
        _PLACES,
        'return _find_name_obstacle(source, place) or "outer"',
        'return _find_name_obstacle(source, place) or "linear"',
    ),
    Mutant(
        "outer",
        "the left side of RIGHT JOIN taken for linear",
        _PLACES,
        'return _find_name_obstacle(block.sources[1], place) or "outer"',
        'return _find_name_obstacle(block.sources[1], place) or "linear"',
    ),
    Mutant(
        "outer", "USING compared wrongly", "operators/joins.py", '"{left} = {right}" for', '"{left} <> {right}" for'
    ),
    Mutant(
        "groups", "a condition without brackets", _PLACES, 'Edit(start, "("), Edit(end, f") AND', 'Edit(end, f" AND'
    ),
    Mutant("full", "keys of NULL lost", _PLACES, "__sqb_k{i} <=> ({pair[", "__sqb_k{i} = ({pair["),
    Mutant(
        "full",
        "rows that went touch nothing",
        _PLACES,
        "FROM {delta} AS {quote(own.alias)})",
        "FROM {delta} AS {quote(own.alias)} WHERE __sqb_multiplicity > 0)",
    ),
    Mutant(
        "full",
        "new for old",
        _PLACES,
        "fill(operator.places[places[number]].input, version)}",
        "fill(operator.places[places[number]].input, 'new')}",
    ),
    Mutant(
        "full",
        "values that are cast taken for those of one type",
        "operators/column_types.py",
        "return all(one and one == other for one, other in kinds)",
        "return True",
    ),
    Mutant(
        "full",
        "keys of the change alone where values are cast",
        _PLACES,
        'for keys in (f"SELECT * FROM {wanted} AS __sqb_t", joined)',
        'for keys in (f"SELECT * FROM {wanted} AS __sqb_t",)',
    ),
    Mutant(
        "full",
        "an equality beside OR taken for a key",
        _JOINS,
        'if any(_is_word(tokens, i, {"OR"}) for i in outer):',
        "if False:",
    ),
    Mutant(
        "full",
        "an equality whose answer is asked for taken for a key",
        _JOINS,
        "if is_equality and not any(",
        "if is_equality or any(",
    ),
    Mutant("full", "taken for linear", _PLACES, 'return "full"', 'return "linear"'),
    Mutant("full", "taken for outer", _PLACES, 'return "full"', 'return "outer"'),
    Mutant("chain", "taken for linear", _PLACES, 'return "chain"', 'return "linear"'),
    Mutant("chain", "taken for outer", _PLACES, 'return "chain"', 'return "outer"'),
    Mutant("chain", "keys of NULL lost", _PLACES, "__sqb_k{i} <=> ({e})", "__sqb_k{i} = ({e})"),
    Mutant(
        "chain",
        "rows of one side alone",
        _PLACES,
        "sides = zip(*full.equal, strict=True)",
        "sides = [*zip(*full.equal)][:1]",
    ),
    Mutant(
        "chain",
        "rows of the other side alone",
        _PLACES,
        "sides = zip(*full.equal, strict=True)",
        "sides = [*zip(*full.equal)][1:]",
    ),
    Mutant("chain", "a column of USING of one side alone", _JOINS, 'f"coalesce({merged}, {own})"', "merged"),
    Mutant(
        "chain",
        "a column of USING of the left side after RIGHT JOIN",
        _JOINS,
        'or source.join == "RIGHT":',
        "or False:",
    ),
    Mutant("chain", "what was is not touched", _PLACES, '("new", "old") if touched', '("new",) if touched'),
    Mutant("chain", "what is is not touched", _PLACES, '("new", "old") if touched', '("old",) if touched'),
    Mutant(
        "chain",
        "rows that went touch nothing",
        _PLACES,
        "FROM {delta} AS {quote(source.alias)}",
        "FROM {delta} AS {quote(source.alias)} WHERE __sqb_multiplicity > 0",
    ),
    Mutant(
        "chain",
        "what the joins before touch is forgotten",
        _PLACES,
        'where = f" WHERE {touched}" if touched else ""',
        'where = " WHERE false" if touched else ""',
    ),
    Mutant("value", "taken for linear", _PLACES, 'return "value"', 'return "linear"'),
    Mutant(
        "value",
        "what came touches nothing",
        _PLACES,
        'return f"EXISTS (SELECT 1 FROM {delta})", {}',
        'return f"EXISTS (SELECT 1 FROM {delta} WHERE __sqb_multiplicity < 0)", {}',
    ),
    Mutant(
        "value",
        "what went touches nothing",
        _PLACES,
        'return f"EXISTS (SELECT 1 FROM {delta})", {}',
        'return f"EXISTS (SELECT 1 FROM {delta} WHERE __sqb_multiplicity > 0)", {}',
    ),
    Mutant(
        "correlated",
        "rows that went touch nothing",
        _PLACES,
        'return _ask_subquery(text, subquery, edit_places(operator, _with(versions, number, "delta"), {}, fill))',
        'return _ask_subquery(text, subquery, edit_places(operator, _with(versions, number, "new"), {}, fill))',
    ),
    Mutant(
        "correlated",
        "rows that came touch nothing",
        _PLACES,
        'return _ask_subquery(text, subquery, edit_places(operator, _with(versions, number, "delta"), {}, fill))',
        'return _ask_subquery(text, subquery, edit_places(operator, _with(versions, number, "old"), {}, fill))',
    ),
    Mutant(
        "correlated",
        "what an outer join in a subquery was touches nothing",
        _PLACES,
        """edit_places(operator, _with(versions, number, version), {}, fill), touched)
        for version in ("new", "old")""",
        """edit_places(operator, _with(versions, number, version), {}, fill), touched)
        for version in ("new",)""",
    ),
    Mutant(
        "correlated",
        "what a query in a subquery decides is left in its condition",
        _PLACES,
        "[*edits, *_drop_conjunct(text, subquery, place.nested)]",
        "edits",
    ),
    Mutant(
        "correlated",
        "taken for linear",
        _PLACES,
        'return "correlated"\n\n\ndef _find_nested_way',
        'return "linear"\n\n\ndef _find_nested_way',
    ),
    Mutant(
        "correlated",
        "a query inside a subquery taken for linear",
        _PLACES,
        'return "correlated"\n\n\ndef _find_position',
        'return "linear"\n\n\ndef _find_position',
    ),
    Mutant(
        "correlated",
        "a value inside a subquery taken for linear",
        _PLACES,
        'if not nested.is_correlated:\n        return "correlated"',
        'if not nested.is_correlated:\n        return "linear"',
    ),
    Mutant("in", "NOT IN taken for a conjunct", _PLACES, "same if subquery.is_conjunct else", "same if True else"),
    Mutant(
        "in",
        "values that went touch nothing",
        _PLACES,
        "({names}) WHERE {touched})",
        "({names}) WHERE __sqb_w > 0 AND {touched})",
    ),
    Mutant(
        "in",
        "rows of IN in the select list touched only where it holds",
        _PLACES,
        'f"NOT (({same}) <=> false)"',
        "same",
    ),
    Mutant("in", "taken for linear", _PLACES, 'return "in"', 'return "linear"'),
    Mutant(
        "in",
        "a part of a condition taken for a conjunct",
        _READER,
        'is_conjunct = clause == "where" and any(',
        'is_conjunct = clause == "where" or any(',
    ),
    Mutant("linked", "bounds of rows that stay", _PLACES, "WHERE {condition})", "WHERE NOT {condition})"),
    Mutant(
        "linked",
        "the condition of a LEFT JOIN for all rows",
        "operators/links.py",
        "source in ({number} if number is not None else inner)",
        "source in ({number} | inner if number is not None else inner)",
    ),
    Mutant(
        "linked",
        "a table that is read twice",
        "operators/model.py",
        "if len(inputs) != 1:",
        "if not inputs:",
    ),
    Mutant(
        "linked",
        "columns that got other names",
        "operators/read.py",
        "self._origins.forget(index)",
        "self._origins.get(index)",
    ),
    Mutant(
        "linked",
        "by way of any column of the source between",
        "operators/links.py",
        "(step.by, through) != (link.source, link.column)",
        "step.by != link.source",
    ),
    Mutant(
        "linked",
        "by way of a row that may not be there",
        "operators/links.py",
        "[pair for pair in known if not pair[0].only_matched]",
        "list(known)",
    ),
    Mutant("scalar", "comparison dropped", _PLACES, 'f"NOT (({new}) <=> ({old}))"', 'f"({new})"'),
    Mutant("scalar", "comparison without NULL", _PLACES, 'f"NOT (({new}) <=> ({old}))"', 'f"NOT (({new}) = ({old}))"'),
    Mutant(
        "scalar",
        "new for old",
        _PLACES,
        'old = apply_edits(text, edit_places(operator, _with(versions, number, "old"), {}, fill), part)',
        'old = apply_edits(text, edit_places(operator, _with(versions, number, "new"), {}, fill), part)',
    ),
    Mutant("scalar", "OR taken apart", _PLACES, 'if "CASE" in words or "OR" in words:', 'if "CASE" in words:'),
    Mutant("state", "sign lost", _STATE, "{term.weight} AS {SIGN}", "1L AS {SIGN}"),
    Mutant(
        "state",
        "weight lost",
        "evaluate.py",
        "return self.engine.expand(self.compute_delta(index))",
        "return self.compute_delta(index)",
    ),
    Mutant(
        "state",
        "changes not net where they are not only added up",
        "evaluate.py",
        "return not places or (is_added and all(",
        "return not places or (is_added or all(",
    ),
    Mutant("state", "new for old beside", _STATE, "fill_values(index, version)", 'fill_values(index, "new")'),
    Mutant(
        "state",
        "HAVING kept in figures",
        "aggregates/model.py",
        'edits = [Edit(self.having_clause, "")] if self.having_clause is not None else []',
        "edits: list[Edit] = []",
    ),
    Mutant(
        "state",
        "which set a group is of lost",
        _DESIGN,
        '*(f"i{i}" for i in numbers if self.aggregation.by_sets))',
        ")",
    ),
    Mutant("state", "a set that is listed twice counted once", _DESIGN, "* (each.times - 1)", "* 0"),
    Mutant(
        "state",
        "the groups of another set repeated",
        _DESIGN,
        "int(n not in each.members)",
        "int(n in each.members)",
    ),
    Mutant(
        "state",
        "a sum of no values is 0",
        _DESIGN,
        'f"CASE WHEN {count.name} > 0 THEN CAST({name} AS {result_type}) END")',
        'f"coalesce(CAST({name} AS {result_type}), 0)")',
    ),
    Mutant("state", "an average by rows", _DESIGN, "CAST({count.name} AS DOUBLE)", "CAST({ROWS} AS DOUBLE)"),
    Mutant("state", "bool_and by what holds", _DESIGN, '"{name}_f = 0"', '"{name}_t > 0"'),
    Mutant("state", "NULL counted as a value", _DESIGN, 'f"d{i} IS NOT NULL"', 'f"d{i} IS NULL OR d{i} IS NOT NULL"'),
    Mutant("state", "columns taken for figures", _STATE, 'name: f"__sqb_t{number}" for', "name: name for"),
    Mutant(
        "state",
        "values counted in the sets that leave them out",
        _AGGREGATION,
        "if by_sets and _list_names(distinct) & _list_names(groups):",
        "if False:",
    ),
    Mutant("state", "outdated figures kept", "proposal.py", "states - outdated", "states"),
    Mutant("groups", "groups of NULL lost", _GROUPS, '"__sqb_k.{key} <=> ({e})"', '"__sqb_k.{key} = ({e})"'),
    Mutant("groups", "what was is not taken away", _GROUPS, "sum_changes([new, old]", "sum_changes([new]"),
    Mutant("groups", "wrong sign", _GROUPS, '", -1L AS __sqb_weight"', '", 1L AS __sqb_weight"'),
    Mutant(
        "groups",
        "new for old",
        _GROUPS,
        "edit_places(operator, repeat(version, operator)",
        'edit_places(operator, repeat("new", operator)',
    ),
    Mutant(
        "groups",
        "weight of two equal groups lost",
        _GROUPS,
        'engine.run(f"SELECT *{weight} FROM ({text})")',
        'engine.run(f"SELECT DISTINCT *{weight} FROM ({text})")',
    ),
    Mutant("groups", "groups of one term alone", _GROUPS, ".join(parts)", ".join(parts[:1])"),
    Mutant(
        "groups",
        "restriction dropped on one side",
        _GROUPS,
        "*edit_where(operator, condition)]",
        '*edit_where(operator, condition if version == "new" else "")]',
    ),
    Mutant(
        "groups",
        "a subquery in an aggregate kept in figures",
        _AGGREGATION,
        "if any(call_span.covers(value)",
        "if False and any(call_span.covers(value)",
    ),
    Mutant(
        "partitions",
        "rows that share a partition left out",
        _PARTITIONS,
        "condition = _match_any(shared, partitionings)",
        "condition = touched",
    ),
    Mutant(
        "partitions",
        "partitions of one window touched alone",
        _PARTITIONS,
        "touched = _match_any(changed, partitionings)",
        "touched = _match_any(changed, partitionings[:1])",
    ),
    Mutant(
        "partitions",
        "partitions of NULL lost",
        _PARTITIONS,
        "<=> ({e})",
        "= ({e})",
    ),
    Mutant(
        "partitions",
        "the first of two names of windows for both",
        "operators/windows.py",
        "return named[name]",
        "return next(iter(named.values()))",
    ),
    Mutant(
        "partitions",
        "those of the first window alone",
        _READER,
        "shared = [p for p in windows[0].partition if all(fold(p) in map(fold, w.partition) for w in windows)]",
        "shared = list(windows[0].partition)",
    ),
    Mutant(
        "partitions",
        "taken for rows",
        "rules/join_rows.py",
        "block is None or block.is_grouping or block.windows",
        "block is None or block.is_grouping",
    ),
    Mutant(
        "partitions",
        "taken for groups",
        _GROUPS,
        "block is None or not block.is_grouping or block.windows",
        "block is None or not block.is_grouping",
    ),
    Mutant("compare", "wrong sign", "rules/compare.py", '("old", -1)', '("old", 1)'),
    Mutant("compare", "new for old", "rules/compare.py", "fill(index, version)", "fill(index, 'new')"),
)


def main(rules: list[str]) -> int:
    """Try every mutant, or those of some rules."""
    tried = caught = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        if wrong := run_plain_queries("", copy):
            sys.exit(f"without a mutant {wrong} fails already")
        print("| rule | mutant | caught by |\n|---|---|---|", flush=True)
        for mutant in MUTANTS:
            if rules and mutant.rule not in rules:
                continue
            found = try_mutant(mutant, copy)
            tried, caught = tried + 1, caught + bool(found)
            print(f"| {mutant.rule} | {mutant.name} | {found or '**survived**'} |", flush=True)
    print(f"\n{caught} of {tried} mutants caught, in {time.monotonic() - began:.0f} s")
    return 1 if caught < tried else 0


def try_mutant(mutant: Mutant, copy: Path) -> str:
    """What notices a mutant: a plain query, or a test; "" if nothing does."""
    path = copy / "sqb/sql/delta" / mutant.module
    right = path.read_text()
    if right.count(mutant.text) != 1:
        sys.exit(f"{mutant.module} has {right.count(mutant.text)} times what {mutant.name!r} replaces: {mutant.text}")
    path.write_text(right.replace(mutant.text, mutant.instead))
    try:
        if failed := run_plain_queries(mutant.rule, copy):
            return failed
        failed = run_tests(copy)
    finally:
        path.write_text(right)
    if failed and (wrong := run_unchanged(copy)):
        sys.exit(f"without a mutant {wrong} fails already")
    return failed


def run_plain_queries(rule: str, copy: Path) -> str:
    """The first plain query that goes wrong, those of a rule first; tried in a process that imports the copy.

    What is slow to import and no part of the sources was imported before, once for all of these processes.
    """
    queries = [(r, i, q) for r in sorted(PLAIN, key=lambda r: r != rule) for i, q in enumerate(PLAIN[r])]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        sys.path.insert(0, str(copy))
        try:
            from support.rule_cases import find_plain_failure

            found = next((f"{r}-{i}" for r, i, q in queries if find_plain_failure(q)), "")
            os.write(writing, found.encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("the plain queries could not be tried")
    return f"plain query {found}" if found else ""


@cache
def run_unchanged(copy: Path) -> str:
    """The first test that fails without a mutant."""
    return run_tests(copy)


def run_tests(copy: Path) -> str:
    """The first test that fails; "" if none does."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "SQB_RULES_SHRINK": "", "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=line", "-rfE"]
    command = [sys.executable, "-m", "pytest", "tests/unit/sql/delta", _RULES, *options]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return ""
    if ran.returncode != 1:
        sys.exit(f"pytest ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return f"`{failed[0].partition(' - ')[0].partition('tests/')[2]}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
