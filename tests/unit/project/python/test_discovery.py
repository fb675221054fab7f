"""Python nodes are found in a process of their own, with everything that is wrong about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sqb.errors.base import Errors, SqbError
from sqb.names import At
from sqb.project.python import discovery, discovery_process
from sqb.project.python.nodes import Discovered, WrittenNode, discover
from unit.folders import write

CACHE = ".sqb/cache/python.json"


def look(root: Path, errors: Errors | None = None) -> Discovered:
    """What is found in a folder, which must be right unless errors are asked for."""
    own = Errors()
    paths = [path.relative_to(root).as_posix() for path in root.glob("python/**/*.py")]
    result = discover(root, paths, own, root / CACHE)
    if errors is None:
        own.raise_any()
    else:
        errors.found.extend(sorted(own.found, key=SqbError.key))
    return result


def nodes(matches: Discovered) -> Mapping[str, WrittenNode]:
    return {node.name: node for node in matches.nodes}


GOOD = {
    "python/loaders/orders.py": '''\
"""Orders."""
import functools
import os
from sqb import loader, task
from helpers.api import pages
import helpers.nodes

LIMIT = 3
print("at import", os.getcwd())

@loader(
    source="raw.orders",
    mode="upsert",
    key="id",
    timeout="10m",
    columns={"id": "bigint"},
)
def load_orders(ctx):
    """Page by page."""
    yield from pages(LIMIT)

def logged(function):
    @functools.wraps(function)
    def inner(ctx):
        return function(ctx, "log")
    return inner

@task(depends_on=[load_orders, "staging.orders"], tags="daily")
@logged
def notify(ctx, log):
    from helpers import slack
    slack.send(ctx)

for table in ("a", "b"):
    @loader(f"raw.{table}", name=f"load_{table}")
    def load(ctx, table=table):
        return []
''',
    "python/helpers/__init__.py": "",
    "python/helpers/api.py": "def pages(n):\n    return [n]\n",
    "python/helpers/slack.py": "def send(x): ...\n",
    "python/helpers/nodes.py": "from loaders.orders import *\nfrom sqb import check\n@check\ndef fresh(c): ...\n",
    "python/models/daily.py": """\
from sqb import model, on_failure

@model(kind="merge", unique_key="id", audits=["row_count(>, 0)"])
def daily(c):
    new = c.changes("staging.orders")
    return new.join(c.ref("people"), "id")

    @on_failure
    def never(ctx): ...
""",
    "python/_private.py": "import sys\nfrom sqb import on_run_end\n@on_run_end\ndef bye(ctx): sys.exit(1)\n",
}


def test_nodes_are_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = write(tmp_path, GOOD)
    view = look(root)
    output = capfd.readouterr()
    assert output.out == "" and output.err == f"at import {root}\n"
    assert view.complete and view.outside == {}
    by_name = nodes(view)
    assert {name: (n.kind, n.module, n.function) for name, n in by_name.items()} == {
        "bye": ("on_run_end", "_private", "bye"),
        "daily": ("model", "models.daily", "daily"),
        "fresh": ("check", "helpers.nodes", "fresh"),
        "load_a": ("loader", "loaders.orders", "load"),
        "load_b": ("loader", "loaders.orders", "load"),
        "load_orders": ("loader", "loaders.orders", "load_orders"),
        "notify": ("task", "loaders.orders", "notify"),
    }
    orders = by_name["load_orders"]
    assert (orders.file, orders.at) == ("python/loaders/orders.py", At("python/loaders/orders.py", 18, 5, 11))
    assert orders.options == {
        "source": "raw.orders",
        "mode": "upsert",
        "key": ["id"],
        "timeout": "10m",
        "columns": {"id": "bigint"},
    }
    assert orders.option_places["key"] == At("python/loaders/orders.py", 14, 9, 4)
    assert orders.source.startswith("@loader(\n    source=") and orders.source.endswith("    yield from pages(LIMIT)\n")
    assert by_name["notify"].options == {"depends_on": ["load_orders", "staging.orders"], "tags": ["daily"]}
    assert by_name["load_b"].options == {"source": "raw.b"}
    assert by_name["load_b"].source.startswith('@loader(f"raw.{table}"')
    daily = by_name["daily"]
    file = "python/models/daily.py"
    assert daily.refs == (("staging.orders", At(file, 5, 21, 16)), ("people", At(file, 6, 27, 8)))
    assert daily.changes == ("staging.orders",)
    assert daily.options == {"kind": "merge", "unique_key": "id", "audits": ["row_count(>, 0)"]}
    assert set(orders.dependencies) == {
        "python/loaders/orders.py",
        "python/helpers/__init__.py",
        "python/helpers/api.py",
    }
    assert set(by_name["notify"].dependencies) == {*orders.dependencies, "python/helpers/slack.py"}
    assert "def load_orders" not in orders.texts[orders.file] and "LIMIT = 3" in orders.texts[orders.file]


def test_nothing_is_started_where_nothing_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"lib/own.py": "X = 1\n", "p/python/n.py": "import own\nfrom sqb import task\n@task\ndef t(ctx): own.X\n"}
    write(tmp_path, files)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'lib'}:{_here()}")
    first = look(tmp_path / "p")
    assert first.outside.keys() == {
        "../lib/own.py",
        "../lib/sqb.py",
        "../lib/sqb/__init__.py",
        "../lib/own/__init__.py",
    }
    assert nodes(first)["t"].dependencies.keys() == {"p/python/n.py", "lib/own.py"}

    started: list[str] = []
    real = discovery.import_modules
    monkeypatch.setattr(discovery, "import_modules", lambda *a: [started.append("x"), real(*a)][1])
    assert look(tmp_path / "p") == first
    assert started == []
    (tmp_path / "lib" / "own.py").write_text("X = 2\n")
    second = look(tmp_path / "p")
    assert started == ["x"]
    assert nodes(second)["t"].dependencies != nodes(first)["t"].dependencies
    assert (nodes(second)["t"].source_hash, nodes(second)["t"].config_hash) == (
        nodes(first)["t"].source_hash,
        nodes(first)["t"].config_hash,
    )


def test_an_import_that_nothing_uses_is_watched_but_no_part_of_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"lib/own.py": "X = 1\n", "p/python/n.py": "import own\nfrom sqb import task\n@task\ndef t(ctx): ...\n"}
    write(tmp_path, files)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'lib'}:{_here()}")
    view = look(tmp_path / "p")
    assert {"../lib/own.py", "../lib/own/__init__.py"} <= view.outside.keys()
    assert nodes(view)["t"].dependencies.keys() == {"p/python/n.py"}


def test_functions_that_other_functions_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = """\
from sqb import loader, task
def make(table):
    @loader(source=f"raw.{table}", name=f"load_{table}")
    def load(ctx):
        return [table]
    return load
def odd(function):
    return lambda ctx: function(ctx)
@task
def not_of_the_project(ctx): ...
"""
    files = {
        "lib/factory.py": factory,
        "p/python/a.py": 'from factory import make\n\nfirst, second = make("x"), make("y")\n',
        "p/python/b.py": """\
from a import first
from factory import odd
from models.b.c.x import x
from sqb import task

@task
@odd
def named(ctx): ...

@task(depends_on=[first, named, x])
def last(ctx): ...
""",
        "p/python/models/a/x.py": "from sqb import model\n@model\ndef x(ctx): ...\n",
        "p/python/models/b/c/x.py": "from sqb import model\n@model\ndef x(ctx): ...\n",
    }
    write(tmp_path, files)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'lib'}:{_here()}")
    result = nodes(look(tmp_path / "p"))
    assert result.keys() == {"load_x", "load_y", "named", "last", "x"}
    made = result["load_y"]
    assert (made.module, made.function, made.at) == ("a", "load", At("python/a.py", 3, 1))
    assert made.source.startswith("@loader(source=") and made.options == {"source": "raw.y"}
    assert made.dependencies.keys() == {"p/python/a.py", "lib/factory.py"}
    assert result["last"].options == {"depends_on": ["load_x", "named", "b_c.x"]}


def _here() -> str:
    return str(Path(discovery.__file__).parents[3])


ARGUMENTS = """\
from sqb import asset, check, loader, model, on_run_start, table_function, task
OPTIONS = {"retires": 2}
"""
# What is written, the code, what is said, what is underlined, the hint.
WRONG = [
    ("@loader\ndef f(ctx): ...", "SQB-P004", "a loader without `source`", "loader", 'source="raw.orders"'),
    ('@loader(source="a.b", mode="upsert")', "SQB-P004", '`mode="upsert"` without `key`', '"upsert"', 'key="id"'),
    ('@loader(source="a.b", key="i")', "SQB-P006", '`key` means nothing with mode="replace"', '"i"', "leave `key` out"),
    ('@loader(source="a.b", mode="apend")', "SQB-P003", 'not "apend"', '"apend"', "did you mean 'append'?"),
    ("@loader(source=3)", "SQB-P003", "`source` must be a text, not 3", "3", None),
    ('@loader("a.b", columns={"i": "itn"})', "SQB-P003", 'not "itn" for i', '{"i": "itn"}', "bigint"),
    ('@loader("a.b", columns={"i": "time"})', "SQB-P003", 'not "time" for i', '{"i": "time"}', "bigint"),
    ('@task(depend_on="x")', "SQB-P002", "@task has no argument `depend_on`", "depend_on", "'depends_on'"),
    ("@task(**OPTIONS)", "SQB-P002", "no argument `retires`", "task(**OPTIONS)", "'retries'"),
    ("@task(depends_on=[print])", "SQB-P003", "a list with the function print", "[print]", None),
    ('@task("x")', "SQB-N002", "@task takes its arguments by name", 'task("x")', "depends_on"),
    ("@task(timeout=10)", "SQB-P003", "not 10", "10", 'write "10s" for seconds'),
    ('@task(timeout="ten")', "SQB-P003", 'must be a duration such as "30s"', '"ten"', None),
    ("@task(retries=True)", "SQB-P003", "`retries` must be a whole number", "True", None),
    ('@task(enabled="no")', "SQB-P003", "must be True or False", '"no"', None),
    ('@task(name="a b")', "SQB-N002", '"a b" cannot be the name of a node', '"a b"', "letters"),
    ('@on_run_start(depends_on="x")', "SQB-P002", "has no argument `depends_on`", "depends_on", "takes name"),
    ('@check(severity="fatal")', "SQB-P003", 'must be "error" or "warn", not "fatal"', '"fatal"', None),
    ("@check\nasync def f(ctx): ...", "SQB-N002", "f is asynchronous", "f", "asyncio.run"),
    ("@task\ndef f(ctx):\n    yield", "SQB-N002", "calling f would do nothing", "f", "return a value"),
    ("@task\ndef f(): ...", "SQB-N002", "f() cannot be called as a node", "f", "def f(ctx):"),
    ("@task\ndef f(ctx, a, *, b=1): ...", "SQB-N002", "f(ctx, a, *, b=1) cannot be called", "f", "one argument"),
    ("@task\n@check\ndef f(ctx): ...", "SQB-N002", "f has more than one decorator of sqb", "f", None),
    ("@asset\nclass f: ...", "SQB-N002", "@asset is not the decorator of a function", "@", "above `def`"),
    ("x = task(lambda ctx: 1)", "SQB-N002", "@task is not the decorator of a function", "x", "above `def`"),
    ('@table_function(schema="i int")', "SQB-N002", "means nothing in python/", "@", "move the function to functions/"),
    ("@model\ndef f(ctx): ...", "SQB-N002", "the model f is not in python/models/", "f", "move it"),
]


def test_everything_that_is_wrong_is_said(tmp_path: Path) -> None:
    written = {}
    for number, (text, *_) in enumerate(WRONG):
        whole = text if "def " in text or "class " in text or "lambda" in text else f"{text}\ndef f(ctx): ..."
        written[f"python/n{number:02}.py"] = ARGUMENTS + whole.replace("def f(", f"def f{number}(") + "\n"
    errors = Errors()
    look(write(tmp_path, written), errors)
    assert len(errors.found) == len(WRONG)
    for number, (error, (_, code, message, underlined, hint)) in enumerate(zip(errors.found, WRONG, strict=True)):
        assert error.at is not None and error.at.file == f"python/n{number:02}.py"
        line = (tmp_path / error.at.file).read_text().split("\n")[error.at.line - 1]
        shown = line[error.at.column - 1 : error.at.column - 1 + error.at.length]
        assert (error.code, shown) == (code, f"f{number}" if underlined == "f" else underlined)
        assert message in error.message.replace(f"f{number}", "f")
        assert hint is None or hint in (error.hint or "").replace(f"f{number}", "f")


BROKEN = {
    "python/a_raise.py": 'def f():\n    return {}["é"] + 1\n\nX = f()\n',
    "python/b_imports_it.py": "import a_raise\n",
    "python/c_missing.py": "if True:\n    import no_such_module\n",
    "python/d_name.py": "from z_fine import fien\n",
    "python/e_syntax.py": "x = 1\ny = (1,\n",
    "python/f_imports_it.py": "import e_syntax\n",
    "python/g_exit.py": "import sys\nsys.exit(3)\n",
    "python/h_gone.py": "import os\nos._exit(4)\n",
    "python/i_hangs.py": "import time\ntime.sleep(1000)\n",
    "python/j_circle.py": "from j_circle_two import b\na = 1\n",
    "python/j_circle_two.py": "from j_circle import a\nb = 1\n",
    "python/json.py": "X = 1\n",
    "python/k.l.py": "X = 1\n",
    "python/o.py": "",
    "python/o/p.py": "",
    "python/pkg.py": "",
    "python/pkg/__init__.py": "",
    "python/pkg/m.py": "import pkg.nothing\n",
    "python/z_fine.py": "from sqb import task\n@task\ndef fine(ctx): ...\n",
    "python/z_same.py": "from sqb import task\n@task(name='Fine')\ndef other(ctx): ...\n",
}


def test_what_cannot_be_imported_is_said_with_all_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import functools

    quick = functools.partial(discovery_process.import_modules, seconds=0.5)
    monkeypatch.setattr(discovery, "import_modules", quick)
    errors = Errors()
    view = look(write(tmp_path, BROKEN), errors)
    assert not view.complete and "fine" in nodes(view) and not (tmp_path / CACHE).exists()
    messages = {error.at.file: error for error in errors.found if error.at is not None}
    assert len(messages) == len(errors.found)
    assert {
        file: (e.code, e.at.line, e.at.column, e.at.length) for file, e in messages.items() if e.at is not None
    } == {
        "python/a_raise.py": ("SQB-N001", 2, 12, 7),
        "python/c_missing.py": ("SQB-N001", 2, 5, 21),
        "python/d_name.py": ("SQB-N001", 1, 1, 23),
        "python/e_syntax.py": ("SQB-N001", 2, 5, 1),
        "python/g_exit.py": ("SQB-N001", 2, 1, 11),
        "python/h_gone.py": ("SQB-N001", 0, 0, 1),
        "python/i_hangs.py": ("SQB-N001", 2, 1, 16),
        "python/j_circle_two.py": ("SQB-N001", 1, 1, 22),
        "python/json.py": ("SQB-N001", 0, 0, 1),
        "python/k.l.py": ("SQB-N001", 0, 0, 1),
        "python/o/p.py": ("SQB-N001", 0, 0, 1),
        "python/pkg/__init__.py": ("SQB-N001", 0, 0, 1),
        "python/pkg/m.py": ("SQB-N001", 1, 1, 18),
        "python/z_same.py": ("SQB-P005", 2, 12, 6),
    }
    assert messages["python/a_raise.py"].message == "KeyError: 'é'"
    assert messages["python/c_missing.py"].message == 'there is no module "no_such_module"'
    assert "pip install no_such_module" in (messages["python/c_missing.py"].hint or "")
    assert messages["python/d_name.py"].hint == "did you mean 'fine'?"
    assert "SystemExit: 3" in messages["python/g_exit.py"].message
    assert "exit code 4" in messages["python/h_gone.py"].message
    assert "longer" in messages["python/i_hangs.py"].message
    assert "in a circle" in (messages["python/j_circle_two.py"].hint or "")
    assert "rename" in (messages["python/json.py"].hint or "")
    assert messages["python/pkg/__init__.py"].message == "`import pkg` cannot mean both this file and python/pkg.py"
    assert (
        messages["python/o/p.py"].hint == "python/o.py is found where the folder python/o/ is meant: rename one of them"
    )
    assert "python/pkg/nothing.py" in (messages["python/pkg/m.py"].hint or "")
    assert "python/z_fine.py:3:5" in messages["python/z_same.py"].message


def test_a_project_without_nodes_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "import_modules", None)
    assert discover(tmp_path, ["models/a.sql"], Errors()) == Discovered()
