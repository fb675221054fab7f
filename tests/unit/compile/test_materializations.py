"""Materialisations in projects: which models name them, what is part of their identity, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqb.cache import codec
from sqb.compile.materializations import refuse_in_environment
from sqb.compile.model import Project
from sqb.errors.base import SqbError, flatten
from sqb.errors.python import BadReturn, ContextMisuse
from sqb.names import At
from sqb.plan.changes.functions import describe_function_change, encode_functions
from sqb.plan.decide import make_plan
from sqb.plan.observed import Observed, RelationState
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.python_runtime.context import Context, Made
from sqb.python_runtime.return_values import build_answer
from unit.compile.test_project import compiled, hint, problems

SWAP = """\
from sqb import materialization
from _made import made

@materialization("swap")
def swapped(ctx):
    return ctx.written(rows=made(ctx))
"""
FILES = {
    "materializations/swap.py": SWAP,
    "materializations/_made.py": "def made(ctx): return 1",
    "models/m.sql": "MODEL (kind custom, materialization swap, config {most: 3});\nSELECT 1 AS a",
    "models/other.sql": "SELECT 1 AS a",
}


def test_a_model_names_its_materialization_in_either_header(tmp_path: Path) -> None:
    header = "-- @kind: custom\n-- @materialization: swap\nSELECT 1 AS a"
    project = compiled(tmp_path, {**FILES, "models/n.sql": header})
    text_shown = {"name": "swap", "file": "materializations/swap.py", "function": "swapped", "at": [
        "materializations/swap.py", 5, 5, 7
    ]}  # fmt: skip
    assert project.nodes["default.m"].materialization == text_shown
    assert project.nodes["default.n"].materialization == text_shown
    assert project.nodes["default.other"].materialization == {}
    assert codec.decode(Project, codec.encode(project)) == project


def test_what_it_says_and_imports_is_part_of_the_identity(tmp_path: Path) -> None:
    before = compiled(tmp_path, FILES).nodes
    layout = compiled(
        tmp_path, {**FILES, "materializations/swap.py": SWAP.replace("    return", "    # so\n    return")}
    )
    assert layout.nodes["default.m"].local_hash == before["default.m"].local_hash
    other = {**FILES, "materializations/_made.py": "def made(ctx): return 2"}
    after = compiled(tmp_path, other).nodes
    assert after["default.other"].local_hash == before["default.other"].local_hash
    was = before["default.m"]
    identity = CommitIdentity(query_hash=was.query_hash, config_hash=was.config_hash, functions=encode_functions(was))
    text_shown = describe_function_change(after["default.m"], identity)
    assert text_shown is not None and text_shown.startswith("materialization swap ")


def test_a_run_that_did_not_end_is_followed_by_another(tmp_path: Path) -> None:
    project = compiled(tmp_path, FILES)
    node = project.nodes["default.m"]
    observed = Observed({node.relation: RelationState(identity=CommitIdentity(in_progress="run_1"))})
    planned = next(n for n in make_plan(project, observed).nodes if n.name == "default.m")
    assert (planned.action, str(planned.reason)) == ("run", "Changed outside sqb")
    assert planned.detail == "run run_1 wrote to default.m and did not come to its end"


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "message", "hint_text"),
    [
        ("-- @kind: custom", "the kind custom needs `materialization`", "a function in materializations/"),
        ("-- @materialization: swap", "`materialization` has no meaning for the kind table", "it belongs to custom"),
        ("-- @kind: custom\n-- @materialization: swop", 'no materialization is called "swop"', "did you mean 'swap'?"),
        ("-- @kind: custom\n-- @materialization: zzz", 'no materialization is called "zzz"', "there are swap"),
        ("-- @kind: custom\n-- @materialization: swap\n-- @unique_key: a", "`unique_key` has no meaning", "merge"),
    ],
)
def test_headers_that_cannot_be(tmp_path: Path, header: str, message: str, hint_text: str) -> None:
    files = {**FILES, "models/n.sql": f"{header}\nSELECT 1 AS a"}
    ((_, at, text_shown),) = problems(tmp_path, files)
    assert message in text_shown and at.startswith("models/n.sql:")
    assert hint_text in (hint(tmp_path, files) or "")


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("@materialization\ndef f(ctx): pass", "1:2", "@materialization needs the name"),
        ("@materialization()\ndef f(ctx): pass", "1:2", "takes a name and nothing else"),
        ('@materialization("a", "b")\ndef f(ctx): pass', "1:2", "takes a name and nothing else"),
        ('@materialization("a b")\ndef f(ctx): pass', "1:2", "a plain text of letters"),
        ("@materialization(NAME)\ndef f(ctx): pass", "1:2", "a plain text of letters"),
        ('@materialization("a")\nclass F: pass', "1:2", "a materialization is a function"),
        ('@materialization("a")\ndef f(ctx, more): pass', "2:5", "f takes more arguments than ctx"),
        ('@materialization("a")\ndef f(): pass', "2:5", "f takes no argument"),
        ('@materialization("swap")\ndef f(ctx): pass', "2:5", "swap is also declared in materializations/swap.py:5:5"),
        ("def (", "1:5", "not Python"),
    ],
)
def test_files_that_cannot_be(tmp_path: Path, text: str, at: str, message: str) -> None:
    messages = problems(tmp_path, {**FILES, "materializations/zz.py": text})
    assert [(kind, place) for kind, place, _ in messages] == [("BadMaterialization", f"materializations/zz.py:{at}")]
    assert message in messages[0][2]


def test_virtual_environments_refuse_what_is_custom() -> None:
    refuse_in_environment("dev", [("default.a", "table", At("models/a.sql"))])
    with pytest.raises(SqbError) as caught:
        refuse_in_environment(
            "dev", [("default.a", "table", At("a")), ("default.m", "custom", At("models/m.sql", 1, 8))]
        )
    (error,) = flatten(caught.value)
    assert (error.code, str(error.at)) == ("SQB-N005", "models/m.sql:1:8")
    assert "default.m is of the kind custom, which cannot be built into the virtual environment dev" in error.message


# --- what it returns --------------------------------------------------------------------------------------------------


def context(kind: str = "materialization") -> Context:
    nothing: Any = None
    call = {"type": kind, "run_id": "r", "target": "dev", "vars": {}, "extra": {"sql": "SELECT 1", "config": {}}}
    return Context(call, nothing, nothing, nothing)


def test_it_says_what_it_wrote() -> None:
    ctx, nothing = context(), Any
    assert ctx.sql == "SELECT 1"
    assert (ctx.written(rows=3), ctx.unchanged()) == (Made(True, 3), Made(False))
    answer = build_answer("materialization", ctx.written(rows=3), ctx, nothing)  # type: ignore[arg-type]
    assert (answer["status"], json.loads(answer["payload"])) == ("ok", {"written": True, "rows": 3})


@pytest.mark.parametrize("returned", [None, 3, {"rows": 1}, [1]])
def test_it_cannot_return_anything_else(returned: Any) -> None:
    nothing: Any = None
    with pytest.raises(BadReturn, match="does not say what it wrote"):
        build_answer("materialization", returned, context(), nothing)


def test_only_materializations_say_so() -> None:
    with pytest.raises(ContextMisuse, match=r"only a materialization has ctx.written"):
        context("task").written()
    with pytest.raises(ContextMisuse, match="rows is a number of rows"):
        context().written(rows=-1)
