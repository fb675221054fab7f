"""Written checks become values; what is wrong about them is said before anything runs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from sqb.cache import codec
from sqb.checks.catalogue import CATALOGUE, WORDS, find_check
from sqb.checks.library.text import find_regex_problem
from sqb.checks.model import Check, ComparedColumns, Figures, RequiredColumn, RowTest, Violations, iter_templates
from sqb.checks.node_checks import NodeChecks, StoredCheck
from sqb.checks.parse import read_checks
from sqb.checks.stored import hash_checks, restore_checks, store_checks
from sqb.checks.thresholds import format_number
from sqb.errors.base import Errors
from sqb.errors.project import BadAudit, BadCheckArguments, CheckNotThere, UnknownCheck
from sqb.names import At
from sqb.project.values import Golden, Setting
from sqb.sql.analysis.parse import read_query
from support.checks import check, reader, refusal, written

GOLDEN = {"golden/g.csv": Golden("golden/g.csv", ("id", "v"), (("1", "a"),), "abc")}
AUDITS = {
    "late": "-- @severity: warn\n-- @description: too late\nSELECT * FROM @@this WHERE at < @@since",
    "orphans": "SELECT t.* FROM @@this t LEFT JOIN staging.people p ON t.id = p.id WHERE p.id IS NULL",
}
WITH = reader(AUDITS, GOLDEN)

# Every check once, as a user writes it.
WRITTEN = {
    "not_null": "not_null(id)",
    "not_empty": "not_empty(name)",
    "at_least_one": "at_least_one(id)",
    "null_percent": "null_percent(v, 5%)",
    "required_if": "required_if(shipped_at, status = 'shipped')",
    "unique": "unique(id)",
    "composite_unique": "composite_unique(a, b)",
    "primary_key": "primary_key(id)",
    "duplicate_percent": "duplicate_percent(v, 5)",
    "not_constant": "not_constant(v)",
    "distinct_count": "distinct_count(v, >=, 2)",
    "approx_distinct": "approx_distinct(v, <, 1000)",
    "cardinality": "cardinality(v, <=, 10)",
    "compare": "compare(v, >=, 0)",
    "between": "between(v, 0, 9)",
    "in_list": "in_list(s, 'a', 'b')",
    "not_in": "not_in(s, 'x')",
    "check": "check(amount >= 0 AND status IN ('a', 'b'))",
    "no_nan": "no_nan(v)",
    "finite": "finite(v)",
    "like": "like(s, 'a%')",
    "not_like": "not_like(s, '%x')",
    "matches": r"matches(s, '^\d+$')",
    "email": "email(s)",
    "uuid": "uuid(s)",
    "length_between": "length_between(s, 1, 9)",
    "length_eq": "length_eq(s, 2)",
    "valid_type": "valid_type(s, decimal(10,2))",
    "sequential": "sequential(id)",
    "sequential_step": "sequential_step(id, 10)",
    "no_overlap": "no_overlap(valid_from, valid_to, id)",
    "references": "references(cid, staging.customers.id)",
    "reconcile_count": "reconcile_count(staging.orders, 1%)",
    "reconcile_sum": "reconcile_sum(v, staging.orders.amount)",
    "golden": "golden(golden/g.csv)",
    "row_count": "row_count(>, 0)",
    "freshness": "freshness(ts, 24h)",
    "column_exists": "column_exists(v)",
    "column_type": "column_type(v, decimal(10,2))",
    "mean": "mean(v, >=, 1)",
    "mean_between": "mean_between(v, 0, 10)",
    "min": "min(v, >=, 0)",
    "max": "max(d, <, DATE '2030-01-01')",
    "sum": "sum(v, >, 0)",
    "median": "median(v, <=, 5.5)",
    "stddev": "stddev(v, <, 10)",
    "zscore": "zscore(v, 3)",
    "percentile": "percentile(v, 0.95, <=, 100)",
    "entropy": "entropy(v, >, 1)",
    "low_entropy": "low_entropy(v, 1)",
    "row_count_delta": "row_count_delta(10%)",
    "sum_delta": "sum_delta(v, 10%)",
    "mean_delta": "mean_delta(v, 10)",
    "approaching_limit": "approaching_limit(id, int, 80%)",
}


def test_every_check_of_the_catalogue_is_tried() -> None:
    assert set(WRITTEN) == set(CATALOGUE)


def _cache(checks: tuple[StoredCheck, ...]) -> tuple[StoredCheck, ...]:
    return codec.decode(NodeChecks, codec.encode(NodeChecks(checks))).checks


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_check_can_be_read_and_kept(name: str) -> None:
    for role in CATALOGUE[name].roles:
        outcome = check(WRITTEN[name], role, WITH)
        assert (outcome.role, outcome.name, outcome.text) == (role, name, WRITTEN[name])
        assert list(restore_checks(_cache(store_checks([outcome])))) == [outcome]
        relations = {
            hole.name for t in iter_templates(outcome.test) for hole in t.parts if not isinstance(hole, str)
        } - {""}
        assert relations == {read.name for read in outcome.reads}


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in ("column_exists",)])
def test_every_check_refuses_what_it_does_not_take(name: str) -> None:
    role = CATALOGUE[name].roles[0]
    few = refusal(f"{name}()", role, WITH)
    many = refusal(WRITTEN[name][:-1] + ", 'one', (too many))", role, WITH)
    for error in (few, many):
        assert isinstance(error, BadCheckArguments)
        assert CATALOGUE[name].usage in (error.hint or "")


def test_a_row_check_passes_null_and_quotes_names() -> None:
    assert check("compare(`group`, >=, -1)").test == RowTest("(`group` >= (-1)) <=> FALSE")
    assert check("not_null(a, B)").test == RowTest("`a` IS NULL OR `B` IS NULL")
    assert check("compare(a, !=, b)").test == RowTest("(`a` <> `b`) <=> FALSE")
    assert check(r"matches(s, '^\d\'$')").test == RowTest(r"(`s` RLIKE '^\\d\\\'$') <=> FALSE")


def test_what_a_check_needs() -> None:
    assert check("compare(a, <, b)").needs == (RequiredColumn("b", "comparable"), RequiredColumn("a", "comparable"))
    assert check("between(a, 1, 2)").needs == (RequiredColumn("a", "number"),)
    assert check("in_list(a, 'x')").needs == (RequiredColumn("a", "text or time", "x"),)
    assert check("compare(a, <, b)").comparisons == (ComparedColumns("a", "b"),)
    assert check("no_overlap(a, b, k)").comparisons == (ComparedColumns("a", "b"),)
    assert check("references(cid, staging.customers.id)").comparisons == (
        ComparedColumns("cid", "id", "staging.customers"),
    )
    assert check("matches(s, '^a')").patterns == ("^a",)
    assert check("required_if(a, b IS NULL)").conditions == ("(b IS NULL)",)
    assert set(check("check(a > 0 OR lower(B.c) = 'x' AND exists(l, x -> x > a))").columns) == {"a", "B", "l"}
    assert check("required_if(a, b IS NULL)").columns == ("a", "b")
    (read,) = check("references(cid, staging.customers.id)").reads
    assert (read.name, read.columns) == ("staging.customers", ("id",))
    assert check("golden(golden/g.csv)", with_=WITH).columns == ("id", "v")
    assert check("golden(golden/g.csv)", with_=WITH).files == ("golden/g.csv",)


def test_roles_and_severity() -> None:
    assert check("not_null(id)", "constraint").is_limited_to_new_rows
    assert not check("not_null(id)", "audit").is_limited_to_new_rows
    assert not check("unique(id)", "constraint").is_limited_to_new_rows
    assert check("not_null(id)", "constraint").is_blocking
    assert not check("not_null(id)", "warning").is_blocking
    warn = check("not_null(id, severity => warn)", "constraint")
    assert (warn.severity, warn.is_blocking, warn.text) == ("warn", False, "not_null(id)")


def test_synonyms_have_one_name() -> None:
    assert check("accepted_values(s, 'a')").name == "in_list"
    assert check("relationships(a, b.c)").name == "references"
    assert check("Not_Null(id)").text == "not_null(id)"


WRONG = [
    ("nonull(id)", UnknownCheck, "there is no check `nonull`", "did you mean 'not_null'?"),
    ("zzz(id)", UnknownCheck, "there is no check `zzz`", "a check of your own is a query in audits/zzz.sql"),
    ("lates(id)", UnknownCheck, "there is no check `lates`", "did you mean 'late'"),
    ("row_count_delta(5)", CheckNotThere, "`row_count_delta` cannot be an audit", "it belongs under `warnings`"),
    ("compare(v, =>, 0)", BadCheckArguments, "compare: `=>` is not an operator", "operators are =, <>"),
    ("compare(v, >=, 1 + 1)", BadCheckArguments, "compare: `1 + 1` is not a value", "a value is a number"),
    ("compare(v, >=, NULL)", BadCheckArguments, "compare: NULL is not a value to compare with", "not_null"),
    ("compare(v >= 0)", BadCheckArguments, "compare: `v >= 0` is not the name of a column", "write compare("),
    ("between(v, 0)", BadCheckArguments, "between: the upper end is missing", "write between(column, low, high)"),
    ("between(v, 0, 1, 2)", BadCheckArguments, "between: `2` is an argument too many", "write between("),
    ("between(v, 9, 1)", BadCheckArguments, "between: 9 is more than 1", "the smaller value comes first"),
    ("check(sum(v) > 0)", BadCheckArguments, "check: the condition `sum(v) > 0` cannot be read", "in audits/"),
    ("in_list(v)", BadCheckArguments, "in_list: the values are missing", "write in_list("),
    ("in_list(v, a)", BadCheckArguments, "in_list: `a` is not a value", "a text in quotes"),
    ("not_null('id')", BadCheckArguments, "not_null: `'id'` is not the name of a column", "backticks"),
    ("not_null(id, id)", BadCheckArguments, "not_null: a column is named twice", "write not_null("),
    ("composite_unique(a)", BadCheckArguments, "composite_unique: the column is missing", "write composite_unique("),
    ("matches(s, '(a')", BadCheckArguments, "matches: `(a` is not a regular expression: missing )", "write matches("),
    ("like(s, a%)", BadCheckArguments, "like: `a%` is not a text in quotes", "write like("),
    (r"like(s, 'a\b')", BadCheckArguments, r"like: `a\b` is not a pattern for LIKE", "write a backslash only before"),
    ("null_percent(v, many)", BadCheckArguments, "null_percent: `many` is not a percentage", "write 5 or 5%"),
    ("freshness(ts, soon)", BadCheckArguments, "freshness: `soon` is not a duration", "write 90m, 24h"),
    ("percentile(v, 95, <, 1)", BadCheckArguments, "percentile: 95 is not a share from 0 to 1", "0.95"),
    ("zscore(v, 0)", BadCheckArguments, "zscore: `0` is not a distance", "write zscore("),
    ("length_between(s, 5, 1)", BadCheckArguments, "length_between: 5 is more than 1", "the smaller length comes"),
    ("length_eq(s, 1.5)", BadCheckArguments, "length_eq: `1.5` is not a whole number", "write length_eq("),
    ("valid_type(s, number)", BadCheckArguments, "valid_type: there is no type `number`", "a type is int"),
    ("valid_type(s, array<int>)", BadCheckArguments, "valid_type: no text can be read as array<int>", "a type is int"),
    ("column_type(s, strng)", BadCheckArguments, "column_type: there is no type `strng`", "write column_type("),
    ("column_type(m, map<string, int)", BadCheckArguments, "column_type: there is no type `map<string, int`", "a type"),
    ("compare(d, >, DATE 'soon')", BadCheckArguments, "compare: 'soon' is not a date", "write DATE '2026-01-31'"),
    ("min(d, >, TIMESTAMP '2026-13-01')", BadCheckArguments, "min: '2026-13-01' is not a timestamp", "write DATE"),
    ("sequential_step(v, 0)", BadCheckArguments, "sequential_step: the step 0 does not go up", "write"),
    ("references(cid, customers)", BadCheckArguments, "references: `customers` is not a column of", "customers.id"),
    ("check(a >)", BadCheckArguments, "check: the condition `a >` cannot be read", "write check("),
    ("check(a IN (SELECT id FROM t))", BadCheckArguments, "check: the condition", "write it as a query in audits/"),
    ("not_null(id, severity => high)", BadCheckArguments, "not_null: there is no severity `high`", "error or warn"),
    ("not_null(id, depth => 1)", BadCheckArguments, "not_null: `depth` is not an argument of", "write not_null("),
    ("row_count(>, 0, severity => warn, severity => warn)", BadCheckArguments, "row_count: `severity` is given", ""),
]


@pytest.mark.parametrize(("text", "kind", "message", "hint"), WRONG, ids=[w[0] for w in WRONG])
def test_wrong_calls(text: str, kind: type[Exception], message: str, hint: str) -> None:
    error = refusal(text, "audit", WITH)
    assert type(error) is kind
    assert error.message.startswith(message)
    assert hint in (error.hint or "")
    assert error.at == written(text).at


def test_a_warning_has_no_severity() -> None:
    assert "never blocks" in refusal("not_null(id, severity => error)", "warning").message


def test_statistics_are_no_constraints() -> None:
    error = refusal("mean(v, >, 0)", "constraint")
    assert isinstance(error, CheckNotThere)
    assert error.hint == "it belongs under `audits` or `warnings`"
    assert isinstance(refusal("late(since => 1)", "constraint", WITH), CheckNotThere)


JAVA = [
    r"\p{L}+",
    r"a++b",
    r"(?<year>\d{4})-\k<year>",
    r"[a-z&&[^b]]",
    r"\Q[(\E",
    r"(?i)abc",
    r"(?>a|b)c",
    r"x(?i)y",
    r"\h\R\z",
]
NO_REGEX = ["(a", "a)", "[a", "*a", "a\\"]


def test_only_what_is_surely_wrong_is_refused_as_a_regular_expression() -> None:
    assert [p for p in JAVA if find_regex_problem(p)] == []
    assert [p for p in NO_REGEX if not find_regex_problem(p)] == []


def test_all_mistakes_are_found_and_the_rest_is_read() -> None:
    calls = tuple(map(written, ("not_null(id)", "nonull(id)", "between(v)", "NOT_NULL( id )")))
    errors = Errors()
    checks = read_checks({"constraints": Setting(calls, At("m.sql"))}, reader(), errors)
    assert [c.text for c in checks] == ["not_null(id)"]
    assert len(errors.found) == 2


def test_own_audits() -> None:
    late = check("late(since => '2026-01-01')", "audit", WITH)
    assert (late.severity, late.description, late.files) == ("warn", "too late", ("audits/late.sql",))
    assert isinstance(late.test, Violations)
    assert late.test.query.render(lambda hole: hole.which).strip() == (
        "SELECT * FROM whole AS `@@this` WHERE at <  '2026-01-01'"
    )
    assert check("late(since => 1, severity => error)", "audit", WITH).severity == "error"
    orphans = check("orphans()", "audit", WITH)
    assert isinstance(orphans.test, Violations)
    assert [(r.name, str(r.at)) for r in orphans.reads] == [("staging.people", "audits/orphans.sql:1:36")]
    for one in (late, orphans):
        assert restore_checks(_cache(store_checks([one]))) == (one,)


OWN_WRONG = [
    ("late()", "late: the argument `since` is missing", "write late(since => …)"),
    ("late(sinse => 1, since => 2)", "late: audits/late.sql does not use @@sinse", "did you mean 'since'?"),
    ("late('2026')", "late: `'2026'` has no name", "write late(name => value)"),
    ("late(since => )", "late: `since` has no value", ""),
]


@pytest.mark.parametrize(("text", "message", "hint"), OWN_WRONG, ids=[w[0] for w in OWN_WRONG])
def test_wrong_calls_of_own_audits(text: str, message: str, hint: str) -> None:
    error = refusal(text, "audit", WITH)
    assert (error.message, isinstance(error, BadCheckArguments)) == (message, True)
    assert hint in (error.hint or "")


def own_problems(text: str, name: str = "mine") -> list[str]:
    from sqb.checks.custom_audits import refuse_wrong_sql

    errors = Errors()
    result = reader({name: text}, errors=errors)
    refuse_wrong_sql(result.audits, result.words, result.query, errors)
    assert all(isinstance(e, BadAudit) for e in errors.found)
    return [f"{e.at}: {e.message}" for e in errors.found]


def test_wrong_files_of_own_audits() -> None:
    assert own_problems("SELECT * FROM @@this WHERE @@column > 0 LIMIT 3") == []
    assert own_problems("SELECT FROM WHERE") != []
    assert own_problems("-- @severity: loud\nSELECT 1 FROM @@this") == [
        'audits/mine.sql:1:1: there is no severity "loud"'
    ]
    assert own_problems("-- @severty: warn\nSELECT 1 FROM @@this") == [
        "audits/mine.sql:1:1: `severty` has no meaning in an audit"
    ]
    assert own_problems("SELECT 1 FROM @@this", "unique") == [
        'audits/unique.sql: there is a check called "unique" already'
    ]
    assert own_problems("DELETE FROM @@this") == ["audits/mine.sql:1:1: an audit is one SELECT; this is a DELETE"]
    assert own_problems("") == ["audits/mine.sql:1:1: there is no query"]
    never = refusal("mine()", "audit", reader({"mine": "SELECT 1"}))
    assert "never reads @@this" in never.message


def test_variables_of_the_project_need_not_be_arguments() -> None:
    with_ = reader({"mine": "SELECT * FROM @@this WHERE n > @@most"}, variables={"most": 5})
    own = check("mine()", "audit", with_)
    assert isinstance(own.test, Violations)
    assert own.test.query.render(lambda hole: "t").endswith("n > 5")


def test_arguments_may_be_variables() -> None:
    with_ = reader(variables={"most": 5, "word": "it's @@most"})
    assert check("compare(v, <=, @@most)", "audit", with_).text == "compare(v, <=, 5)"
    assert check("in_list(s, @@word, 'a@b.c')", "audit", with_).text == r"in_list(s, 'it\'s @@most', 'a@b.c')"
    assert check("null_percent(v, @@most%)", "audit", with_).text == "null_percent(v, 5%)"
    assert check("check(v < @@most * 2)", "audit", with_).conditions == ("(v < 5 * 2)",)
    wrong = refusal("compare(v, <=, @@mots)", "audit", with_)
    assert (type(wrong), wrong.message) == (BadCheckArguments, "compare: @@mots has no meaning")


def hashed(*texts: str, **files: object) -> str:
    return hash_checks([check(text, "audit", reader(**files)) for text in texts])  # type: ignore[arg-type]


def test_a_duration_may_be_in_quotes() -> None:
    assert "soon" in refusal("freshness(ts, 'soon')").message
    assert check("freshness(ts, '24h')").columns == ("ts",)


def test_numbers_of_any_size_can_be_said() -> None:
    for text in ("1e400", "12345678901234567890123456789.5", "0.0000001", "-7.1234567", "1e-400", "100000"):
        assert format_number(Decimal(text))
    assert [format_number(Decimal(text)) for text in ("-7.1234567", "12345678901234567890123456789.50", "1e400")] == [
        "-7.123457",
        "12345678901234567890123456789.5",
        "1E+400",
    ]


def test_hashes_change_with_what_is_asked() -> None:
    assert hash_checks([]) == ""
    assert hashed("not_null(id)") == hashed("not_null( id )")
    assert hashed("not_null(id)", "unique(id)") == hashed("unique(id)", "not_null(id)")
    different = [
        hashed("not_null(id)"),
        hashed("not_null(id, severity => warn)"),
        hashed("unique(id)"),
        hash_checks([check("not_null(id)", "constraint")]),
        hashed("in_list(s, 'a b')"),
        hashed("in_list(s, 'a  b')"),
        hashed("mine()", audits={"mine": "SELECT 1 FROM @@this"}),
        hashed("mine()", audits={"mine": "SELECT 2 FROM @@this"}),
        hashed("golden(golden/g.csv)", golden={"golden/g.csv": Golden("golden/g.csv", ("a",), (), "1")}),
        hashed("golden(golden/g.csv)", golden={"golden/g.csv": Golden("golden/g.csv", ("a",), (), "2")}),
    ]
    assert len(set(different)) == len(different)
    plain = hashed("mine()", audits={"mine": "SELECT 1 FROM @@this"})
    messages = hashed("mine()", audits={"mine": "-- @description: one\nselect 1  -- all\nFROM @@this"})
    assert plain == messages


def test_figures_of_one_name_are_one_question() -> None:
    asked: dict[tuple[str, object], str] = {}
    for name in CATALOGUE:
        outcome: Check = check(WRITTEN[name], CATALOGUE[name].roles[0], WITH)
        for figure in outcome.test.figures if isinstance(outcome.test, Figures) else ():
            assert asked.setdefault((figure.name, figure.of), figure.sql) == figure.sql


def test_words() -> None:
    assert find_check("RELATIONSHIPS") is CATALOGUE["references"]
    assert find_check("nothing") is None
    assert len(set(WORDS)) == len(WORDS)


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_is_asked_of_spark_parses(name: str) -> None:
    test = check(WRITTEN[name], CATALOGUE[name].roles[0], WITH).test
    asked = [template.render(lambda hole: f"`{hole.which}`") for template in iter_templates(test)]
    match test:
        case RowTest(violation):
            asked = [f"SELECT {test.count} FROM t", f"SELECT * FROM t WHERE {violation}"]
        case Figures(figures=figures):
            asked = [f"SELECT 1 FROM {source}" if not source.startswith("SELECT") else source for source in asked]
            asked += [f"SELECT {figure.sql} AS `a` FROM t" for figure in figures]
    for text in asked:
        read_query(text, {})
