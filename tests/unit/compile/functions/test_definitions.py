"""Functions in projects: what uses them, what makes them the same functions, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb import udf
from sqb.build.observe.lake import compute_renewed_hash
from sqb.cache import codec
from sqb.compile.model import Node, Project
from sqb.errors.base import SqbError, flatten
from sqb.lake.state.rows import Fingerprint
from sqb.plan.changes.functions import describe_function_change, encode_functions
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.workspace import open_workspace
from unit.compile.test_project import compiled, hint, problems
from unit.folders import write

NET = "CREATE FUNCTION net(x DECIMAL(10,2)) RETURNS DECIMAL(10,2) RETURN x / 1.19"
PRICE = "CREATE FUNCTION price(x DECIMAL(10,2)) RETURNS DECIMAL(10,2) RETURN net(x) * 2"
RATE = "CREATE FUNCTION rate(c STRING) RETURNS DOUBLE RETURN (SELECT max(rate) FROM rates WHERE country = c)"
FILES = {
    "functions/net.sql": NET,
    "functions/price.sql": PRICE,
    "functions/rate.sql": RATE,
    "models/plain.sql": "SELECT 1 AS a, 'net(a)' AS b",
    "models/direct.sql": "SELECT net(a) AS n FROM plain",
    "models/deep.sql": "SELECT price(a) AS p FROM plain",
    "models/reads.sql": "WITH rates AS (SELECT 1 AS x) SELECT rate(b) AS r FROM plain, rates",
    "seeds/rates.csv": "country,rate\nde,0.19\n",
}


def hashes(project: Project) -> dict[str, str]:
    return {n.name.rpartition(".")[2]: n.local_hash for n in project}


def changed(tmp_path: Path, **edits: str) -> set[str]:
    """The nodes whose identity is another one after an edit of functions."""
    before = hashes(compiled(tmp_path, FILES))
    after = hashes(compiled(tmp_path, {**FILES, **{f"functions/{name}.sql": text for name, text in edits.items()}}))
    return {name for name in before if before[name] != after[name]}


def test_a_function_changes_what_uses_it_directly_or_not_and_nothing_else(tmp_path: Path) -> None:
    assert changed(tmp_path, net=NET.replace("1.19", "1.2")) == {"direct", "deep"}
    assert changed(tmp_path, price=PRICE.replace("2", "3")) == {"deep"}
    assert changed(tmp_path, rate=RATE.replace("max", "min")) == {"reads"}


@pytest.mark.parametrize(
    "text",
    [
        NET.replace("RETURN x", "-- without tax\nreturn   x"),
        NET.replace("CREATE", "CREATE OR REPLACE TEMPORARY"),
        NET.replace("RETURN x", "COMMENT 'net' LANGUAGE SQL DETERMINISTIC RETURN x"),
        NET.replace("x DECIMAL(10,2))", "`x` dec(10, 2))") + ";",
    ],
)
def test_words_that_do_not_matter_change_nothing(tmp_path: Path, text: str) -> None:
    assert changed(tmp_path, net=text) == set()


@pytest.mark.parametrize(
    "text",
    [
        NET.replace("x DECIMAL(10,2)", "x DECIMAL(10,3)"),
        NET.replace("RETURNS DECIMAL(10,2)", "RETURNS DOUBLE"),
        NET.replace("(x DECIMAL(10,2))", "(x DECIMAL(10,2), y INT DEFAULT 1)"),
        NET.replace("RETURN x", "NOT DETERMINISTIC RETURN x"),
    ],
)
def test_types_and_defaults_are_part_of_a_function(tmp_path: Path, text: str) -> None:
    assert changed(tmp_path, net=text) == {"direct", "deep"}


def test_tables_of_a_function_are_read_by_what_uses_it(tmp_path: Path) -> None:
    project = compiled(tmp_path, FILES)
    assert project.nodes["default.reads"].upstream == ("default.plain", "seeds.rates")
    assert project.nodes["default.direct"].upstream == ("default.plain",)


def test_a_function_that_reads_its_reader_is_a_circle(tmp_path: Path) -> None:
    files = {"functions/f.sql": "CREATE FUNCTION f() RETURNS INT RETURN (SELECT max(x) FROM b)"}
    models = {"models/a.sql": "SELECT f() AS y", "models/b.sql": "SELECT y AS x FROM a"}
    (result,) = problems(tmp_path, {**files, **models})
    assert result == (
        "Cycle",
        "models/a.sql:1:8",
        "models read each other in a circle: default.a → default.b → default.a",
    )


def test_the_project_knows_its_functions_also_from_the_cache(tmp_path: Path) -> None:
    project = compiled(tmp_path, {**FILES, "functions/unused.sql": "CREATE FUNCTION unused() RETURNS INT RETURN 1"})
    assert {f.name: f.used for f in project.functions} == {"net": True, "price": True, "rate": True, "unused": False}
    assert codec.decode(Project, codec.encode(project)) == project
    assert open_workspace(tmp_path).project == project


def test_an_edit_of_a_function_is_noticed(tmp_path: Path) -> None:
    before = compiled(tmp_path, FILES)
    after = compiled(tmp_path, {"functions/net.sql": NET.replace("1.19", "1.2")})
    assert after.nodes["default.direct"].sql != before.nodes["default.direct"].sql


def test_variables_work_in_functions_and_tests_may_change_them(tmp_path: Path) -> None:
    files = {
        "sqlbuild_project.toml": 'name = "shop"\n[vars]\nvat = 19\n',
        "functions/net.sql": "CREATE FUNCTION net(x INT) RETURNS INT RETURN x - @@vat",
        "models/a.sql": "SELECT net(1) AS a",
        "tests/a.yml": "tests:\n  - name: t\n    model: a\n    vars: {vat: 20}\n    expect: [{a: -19}]\n",
    }
    project = compiled(tmp_path, files)
    assert project.nodes["default.a"].sql == "SELECT CAST((CAST(1 AS INT) - 19) AS INT) AS a"
    variant = project.tests[0].variant
    assert variant is not None and variant.sql == "SELECT CAST((CAST(1 AS INT) - 20) AS INT) AS a"


# --- reasons --------------------------------------------------------------------------------------------------------


def stored(node: Node) -> CommitIdentity:
    return CommitIdentity(
        query_hash=node.query_hash,
        config_hash=node.config_hash,
        functions=encode_functions(node),
        written_hash=node.written_hash,
    )


def reason(tmp_path: Path, model: str, files: dict[str, str], edits: dict[str, str]) -> str | None:
    before = compiled(tmp_path, files).nodes[f"default.{model}"]
    after = compiled(tmp_path, {**files, **edits}).nodes[f"default.{model}"]
    return describe_function_change(after, stored(before)) if before.local_hash != after.local_hash else "the same"


def test_the_function_that_changed_is_named(tmp_path: Path) -> None:
    edit = {"functions/net.sql": NET.replace("1.19", "1.2")}
    text = reason(tmp_path, "deep", FILES, edit)
    assert text is not None and text.startswith("function net ") and " → " in text and "price" not in text


def test_a_function_that_calls_another_function_now_is_named_with_it(tmp_path: Path) -> None:
    edit = {"functions/price.sql": PRICE.replace("net(x)", "x")}
    text = reason(tmp_path, "deep", FILES, edit)
    assert text is not None and text.startswith("function net is no longer used, function price ")


def test_a_query_or_a_setting_that_changed_too_is_what_counts(tmp_path: Path) -> None:
    edit = {"functions/net.sql": NET.replace("1.19", "1.2")}
    assert reason(tmp_path, "direct", FILES, {**edit, "models/direct.sql": "SELECT net(a) AS m FROM plain"}) is None
    with_sort = {"models/direct.sql": "-- @sorted_by: n\nSELECT net(a) AS n FROM plain"}
    assert reason(tmp_path, "direct", FILES, {**edit, **with_sort}) is None


MACRO = "from shared import half\n\ndef money(x):\n    return half(x)\n"
MACROS = {
    "macros/cash.py": MACRO,
    "macros/shared.py": "def half(x):\n    return f'{x} / 2'\n",
    "models/a.sql": "SELECT @money(b) AS m FROM plain",
    "models/plain.sql": "SELECT 1 AS b",
}


def test_a_macro_that_says_something_else_is_named(tmp_path: Path) -> None:
    edit = {"macros/cash.py": MACRO.replace("half(x)", "half(x) + ' + 1'")}
    text = reason(tmp_path, "a", MACROS, edit)
    assert text is not None and text.startswith("macro money ")


def test_what_a_macro_imports_is_part_of_it(tmp_path: Path) -> None:
    text = reason(tmp_path, "a", MACROS, {"macros/shared.py": "def half(x):\n    return f'{x} / 3'\n"})
    assert text is not None and text.startswith("macro money ")


def test_a_macro_that_says_the_same_in_other_words_changes_nothing(tmp_path: Path) -> None:
    edit = {"macros/cash.py": MACRO.replace("return half(x)", "y = half(x)\n    return y")}
    assert reason(tmp_path, "a", MACROS, edit) == "the same"


def test_a_model_whose_text_changed_with_its_macro_has_another_query(tmp_path: Path) -> None:
    edit = {"macros/cash.py": MACRO + "\n# more", "models/a.sql": "SELECT @money(b) AS n FROM plain"}
    assert reason(tmp_path, "a", MACROS, edit) is None


def test_a_stored_definition_gives_the_same_hash_again(tmp_path: Path) -> None:
    for node in compiled(tmp_path, FILES):
        if node.type == "model":
            row = Fingerprint("model", node.name, "s", "t", "r", "", "", "", node.definition, "", None)  # type: ignore[arg-type]
            assert compute_renewed_hash(row.definition) == node.local_hash


# --- Python ---------------------------------------------------------------------------------------------------------

SHOUT = "def shout(x: str, n: int = 1) -> str:\n    return x.upper() + '!' * n\n"
PYTHON = {"functions/text.py": SHOUT, "models/a.sql": "SELECT shout(b) AS s FROM (SELECT 'x' AS b)"}


def python_types(tmp_path: Path, text: str) -> dict[str, str]:
    return {f.name: f.returns for f in compiled(tmp_path, {"functions/some.py": text}).functions}


def test_annotations_say_what_a_python_function_returns(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nimport datetime\nfrom datetime import date\nfrom typing import Optional\n"
        "from sqb import udf\n"
        "def a(x) -> int: ...\ndef b(x) -> Optional[float]: ...\ndef c(x) -> list[str]: ...\n"
        "def d(x) -> dict[str, date] | None: ...\ndef k(x) -> datetime.datetime: ...\ndef f(x) -> 'array<int>': ...\n"
        "@udf(returns='decimal(10, 2)')\ndef g(x): ...\n@udf('int', deterministic=False)\ndef h(x) -> str: ...\n"
        "def _own(x): ...\n"
    )
    assert python_types(tmp_path, text) == {
        "a": "BIGINT",
        "b": "DOUBLE",
        "c": "ARRAY<STRING>",
        "d": "MAP<STRING, DATE>",
        "f": "ARRAY<INT>",
        "g": "DECIMAL(10,2)",
        "h": "INT",
        "k": "TIMESTAMP",
    }


def test_the_decorator_leaves_functions_as_they_are() -> None:
    def f(x: int) -> int:
        return x + 1

    assert udf(f) is f and udf("int", deterministic=False)(f) is f


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("def f(x):\n  return 1", "1:5", "f does not declare what it returns"),
        ("def f(x) -> Decimal: ...", "1:5", "the type that Spark has for Decimal is not known"),
        ("def f(x -> int: ...", "1:9", "not Python: invalid syntax"),
        ("async def f(x) -> int: ...", "1:5", "f is asynchronous, which Spark cannot call"),
        ("@udf(returns=KIND)\ndef f(x): ...", "1:2", "@udf does not take this returns"),
        ("@udf(arrow=True)\ndef f(x): ...", "1:2", "@udf does not take this arrow"),
        ("@udf('decimals')\ndef f(x): ...", "2:5", "there is no type decimals"),
        ("def abs(x) -> int: ...", "1:5", "abs is a function of Spark's own"),
    ],
)
def test_python_functions_that_cannot_be(tmp_path: Path, text: str, place: str, message: str) -> None:
    (result,) = problems(tmp_path, {"functions/some.py": text})
    assert result[1:] == (f"functions/some.py:{place}", message)


def test_a_python_file_that_cannot_be_loaded_is_an_error_with_a_place_once_it_is_used(tmp_path: Path) -> None:
    files = {"functions/text.py": f"import nothing_of_this_name\n{SHOUT}"}
    assert compiled(tmp_path, files).functions[0].used is False
    (result,) = problems(tmp_path, {**files, "models/a.sql": PYTHON["models/a.sql"]})
    assert result == (
        "BadPython",
        "functions/text.py:1:1",
        "ModuleNotFoundError: No module named 'nothing_of_this_name'",
    )


def test_a_python_function_changes_with_what_its_file_and_its_imports_say(tmp_path: Path) -> None:
    def local(**edits: str) -> str:
        files = {
            f"functions/{name}.py": text
            for name, text in {"text": "import _own\n" + SHOUT, "_own": "A = 1", **edits}.items()
        }
        return compiled(tmp_path, {**PYTHON, **files}).nodes["default.a"].local_hash

    before = local()
    assert local(text=f"import _own  # mine\n\n\n{SHOUT}".replace("'!'", '"!"')) == before
    assert local(_own="A = 2") != before
    assert local(text="import _own\n" + SHOUT.replace("upper", "lower")) != before
    assert local(other="def other(x) -> int: ...") == before


def test_calls_of_python_functions_are_checked(tmp_path: Path) -> None:
    files = {**PYTHON, "models/a.sql": "SELECT shout() AS a, 1 AS b"}
    assert problems(tmp_path, files) == [("BadCall", "models/a.sql:1:8", "shout: x is missing")]
    assert hint(tmp_path, files) == "write shout(x, n = …)"


def test_a_view_cannot_call_python(tmp_path: Path) -> None:
    files = {**PYTHON, "models/a.sql": "-- @kind: view\nSELECT shout('a') AS a"}
    ((kind, at, message),) = problems(tmp_path, files)
    assert (kind, at) == ("BadCall", "models/a.sql:2:8") and message.startswith("a view cannot call shout")


def test_functions_that_are_not_deterministic_make_a_model_volatile(tmp_path: Path) -> None:
    files = {
        "functions/f.sql": "CREATE FUNCTION f(x INT) RETURNS INT NOT DETERMINISTIC RETURN x",
        "functions/g.sql": "CREATE FUNCTION g() RETURNS DOUBLE RETURN rand()",
        "functions/some.py": "from sqb import udf\n@udf('int', deterministic=False)\ndef h(x): ...\n",
        "models/a.sql": "SELECT f(1) AS a",
        "models/b.sql": "SELECT g() AS a",
        "models/c.sql": "SELECT h(1) AS a",
    }
    project = compiled(tmp_path, files)
    assert [project.nodes[f"default.{n}"].volatile for n in "abc"] == [("f",), ("rand",), ("h",)]


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_all_mistakes_are_told_at_once_each_in_its_place(tmp_path: Path) -> None:
    files = {
        "functions/net.sql": "CREATE FUNCTION gross(x INT) RETURNS INT RETURN x",
        "functions/a/twice.sql": "CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2",
        "functions/b/twice.sql": "CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2",
        "functions/odd.sql": "CREATE FUNCTION odd(x INT) RETURNS INT\nRETURN x + @@nothing",
        "models/a.sql": "SELECT\n  twice(1, 2) AS a",
        "models/b.sql": "-- @constraint: check(twice() > 0)\nSELECT 1 AS a",
        "audits/c.sql": "SELECT * FROM @@this WHERE twice(a, b) > 0",
    }
    messages = problems(tmp_path, files)
    assert [(kind, place) for kind, place, _ in messages] == [
        ("BadAudit", "audits/c.sql:1:37"),
        ("BadFunction", "functions/b/twice.sql"),
        ("BadFunction", "functions/net.sql:1:17"),
        ("UnknownVariable", "functions/odd.sql:2:12"),
        ("BadCall", "models/a.sql:2:12"),
        ("BadCheckArguments", "models/b.sql:1:17"),
    ]


def test_checks_and_hooks_follow_the_functions_they_call(tmp_path: Path) -> None:
    files = {
        "functions/net.sql": NET,
        "functions/text.py": SHOUT,
        "models/a.sql": "-- @constraint: check(net(a) > 0)\n-- @audit: low()\nSELECT 1 AS a",
        "models/b.sql": "-- @pre_hook: DELETE FROM a WHERE shout(a) = 'A'\nSELECT 1 AS a",
        "audits/low.sql": "SELECT * FROM @@this WHERE net(a) < 0 AND shout(a) = 'A'",
    }

    def seen(**edits: str) -> tuple[str, str, str]:
        project = compiled(tmp_path, {**files, **{f"functions/{k.replace('_', '.')}": v for k, v in edits.items()}})
        a, b = project.nodes["default.a"], project.nodes["default.b"]
        assert codec.decode(Project, codec.encode(project)) == project
        return a.checks_hash, a.local_hash, b.local_hash

    checks, local, hooked = seen()
    assert seen(net_sql=NET.replace("RETURN x", "-- without tax\nreturn  x"))[0] == checks
    assert seen(net_sql=NET.replace("1.19", "1.2"))[0] != checks
    assert seen(net_sql=NET.replace("1.19", "1.2"))[1:] == (local, hooked)
    assert seen(text_py=SHOUT.replace("upper", "lower"))[0] != checks
    assert seen(text_py=SHOUT.replace("upper", "lower"))[2] != hooked


def test_a_function_that_is_wrong_is_told_once(tmp_path: Path) -> None:
    files = {**FILES, "functions/net.sql": NET.replace("x /", "y /")}
    assert problems(tmp_path, files) == [("BadFunction", "functions/net.sql:1:67", "net has no parameter y")]


def test_an_error_in_the_text_of_a_function_shows_its_line(tmp_path: Path) -> None:
    with pytest.raises(SqbError) as caught:
        open_workspace(
            write(tmp_path, {"functions/f.sql": "CREATE FUNCTION f(amount INT) RETURNS INT\nRETURN amont + 1"})
        )
    (result,) = flatten(caught.value)
    assert (str(result.at), result.message, result.hint) == (
        "functions/f.sql:2:8",
        "f has no parameter amont",
        "did you mean 'amount'?",
    )
