"""What a Python node is made of: the modules that it imports, whichever way, and nothing that belongs to others."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from sqb.project.python.imports import Definition, Module, Modules, build_search_path, find_git_root, is_installed
from unit.folders import write

Files = Mapping[str, str]

NODE = "@task\ndef node(ctx):\n    return 1\n"


def definitions(root: Path) -> dict[str, tuple[Module, Definition]]:
    """The functions below `@task` in the folder `python`, by name."""
    by_name = {}
    for file in sorted((root / "python").rglob("*.py")):
        name = ".".join(file.relative_to(root / "python").with_suffix("").parts).removesuffix(".__init__")
        try:
            tree = ast.parse(file.read_bytes())
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = [d.lineno for d in node.decorator_list if ast.unparse(d).startswith("task")]
                if lines:
                    by_name[node.name] = (Module(name, file), Definition(file, node.lineno, lines[0]))
    return by_name


def identities(root: Path, outside: Iterable[str] = ()) -> dict[str, tuple[str, dict[str, str]]]:
    """What each node is: the hash of its function, and of every file that it is made of."""
    nodes = definitions(root)
    search = build_search_path(root / "python", [str(root / o) for o in outside], root)
    modules = Modules(search, [definition for _, definition in nodes.values()])
    return {
        name: (
            modules.hash_function(definition),
            {
                file.relative_to(root).as_posix(): h
                for file, h in modules.collect_contents(module, definition).hashes.items()
            },
        )
        for name, (module, definition) in nodes.items()
    }


def made_of(root: Path, outside: Iterable[str] = (), node: str = "node") -> set[str]:
    return {file.removeprefix("python/") for file in identities(root, outside)[node][1]}


# What `python/n.py` says above its node, the other files below `python/`, and those that it is made of besides itself.
GRAPHS: dict[str, tuple[str, Files, set[str]]] = {
    "nothing": ("import os, json\n", {"other.py": ""}, set()),
    "a module": ("import a\n", {"a.py": "", "b.py": ""}, {"a.py"}),
    "a module under another name": ("import a as b\n", {"a.py": "", "b.py": ""}, {"a.py"}),
    "modules of modules": ("import a\n", {"a.py": "import b", "b.py": "import c", "c.py": "", "d.py": ""}, {*"abc"}),
    "a package and all above": (
        "import p.q.r\n",
        {"p/__init__.py": "", "p/q/__init__.py": "", "p/q/r.py": "", "p/q/s.py": "", "p/t.py": ""},
        {"p/__init__.py", "p/q/__init__.py", "p/q/r.py"},
    ),
    "what a package imports": (
        "import p.q\n",
        {"p/__init__.py": "from .t import x", "p/q.py": "", "p/t.py": "x = 1", "p/u.py": ""},
        {"p/__init__.py", "p/q.py", "p/t.py"},
    ),
    "a name that is a module": (
        "from p import q, X\n",
        {"p/__init__.py": "X = 1", "p/q.py": "", "p/X_.py": ""},
        {"p/__init__.py", "p/q.py"},
    ),
    "a name of a module": (
        "from p.q import f\n",
        {"p/__init__.py": "", "p/q.py": "f = 1"},
        {"p/__init__.py", "p/q.py"},
    ),
    "everything": (
        "from p import *\n",
        {"p/__init__.py": "__all__ = ['q', 'X']\n__all__ += ['s']\nX = 1", "p/q.py": "", "p/r.py": "", "p/s.py": ""},
        {"p/__init__.py", "p/q.py", "p/s.py"},
    ),
    "a cycle": ("import a\n", {"a.py": "import b", "b.py": "import a, n", "c.py": ""}, {"a.py", "b.py"}),
    "a package without a file": (
        "import space.deep.a\nfrom space import b\n",
        {"space/deep/a.py": "from .. import c", "space/b.py": "", "space/c.py": "", "space/d.py": ""},
        {"space/deep/a.py", "space/b.py", "space/c.py"},
    ),
    "relative, from a package": (
        "import p.q.r\n",
        {
            "p/__init__.py": "",
            "p/q/__init__.py": "from . import own",
            "p/q/r.py": "from .s import x\nfrom .. import t\nfrom ..u.v import y\nfrom ... import nowhere",
            "p/q/own.py": "",
            "p/q/s.py": "x = 1",
            "p/t.py": "",
            "p/u/__init__.py": "",
            "p/u/v.py": "y = 1",
            "s.py": "",
            "t.py": "",
            "nowhere.py": "",
        },
        {f"p/{f}.py" for f in ("__init__", "q/__init__", "q/r", "q/own", "q/s", "t", "u/__init__", "u/v")},
    ),
    "inside functions and classes": (
        "def f():\n    import a\n    def g():\n        from b import x\nclass C:\n    import c\n",
        {"a.py": "", "b.py": "x = 1", "c.py": ""},
        {*"abc"},
    ),
    "on conditions": (
        "import sys\nif sys.platform == 'win32':\n    import a\nelif X:\n    import b\nelse:\n    import c\n"
        "while 0:\n    import d\nfor _ in ():\n    import e\nwith open('/dev/null'):\n    import f\n",
        {f"{x}.py": "" for x in "abcdefg"},
        {*"abcdef"},
    ),
    "alternatives": (
        "try:\n    import a\nexcept ImportError:\n    import b\nelse:\n    import c\nfinally:\n    import d\n",
        {f"{x}.py": "" for x in "abcde"},
        {*"abcd"},
    ),
    "an alternative that is not there": (
        "try:\n    import ujson_nowhere as json\nexcept ImportError:\n    import slow_json as json\n",
        {"slow_json.py": ""},
        {"slow_json.py"},
    ),
    "for types only": (
        "import typing as t\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\nelse:\n    import b\n"
        "if t.TYPE_CHECKING:\n    import c\nif not TYPE_CHECKING:\n    import d\nif TYPE_CHECKING or t:\n    import e",
        {f"{x}.py": "" for x in "abcdef"},
        {*"bde"},
    ),
    "by its name as text": (
        "import importlib\nfrom importlib import import_module\nimportlib.import_module('a.b')\nimport_module(name)\n"
        "import_module('c')\n__import__('d')\nx = 'e'\n",
        {"a/__init__.py": "", "a/b.py": "", **{f"{x}.py": "" for x in "cde"}},
        {"a/__init__.py", "a/b.py", "c.py", "d.py"},
    ),
    "by its name as text, relative": (
        "import p.a\n",
        {
            "p/__init__.py": "",
            "p/a.py": "from importlib import import_module as m\nimport importlib\n"
            "importlib.import_module('.b', __package__)\nimportlib.import_module('.c', package='q')\n",
            "p/b.py": "",
            "q/__init__.py": "",
            "q/c.py": "",
            "b.py": "",
            "c.py": "",
        },
        {"p/__init__.py", "p/a.py", "p/b.py", "q/__init__.py", "q/c.py"},
    ),
    "a package before a module of its name": (
        "import a\n",
        {"a.py": "import b", "a/__init__.py": "import c", "b.py": "", "c.py": ""},
        {"a/__init__.py", "c.py"},
    ),
    "a module before a folder of its name": ("import a\n", {"a.py": "", "a/b.py": ""}, {"a.py"}),
    "a name below a module that is no package": ("import a.b\n", {"a.py": "", "a/b.py": ""}, {"a.py"}),
    "what is not Python": ("import a\n", {"a.py": "x = (", "b.py": ""}, {"a.py"}),
    "an encoding of its own": ("import a\n", {"a.py": "# coding: latin-1\nimport b", "b.py": ""}, {*"ab"}),
}
UNRUNNABLE = {"on conditions", "by its name as text", "what is not Python", "relative, from a package"}
UNRUNNABLE |= {"a name below a module that is no package", "by its name as text, relative"}


def project(root: Path, graph: str) -> Path:
    head, files, _ = GRAPHS[graph]
    text = f"{head}\n{_use(head)}\n{NODE}"
    return write(root, {"python/n.py": text, **{f"python/{file}": text for file, text in files.items()}})


def _use(head: str) -> str:
    """A use of whatever is imported at the top: what nothing uses is not part of a node."""
    imports = [s for s in ast.parse(head).body if isinstance(s, ast.Import | ast.ImportFrom)]
    names = [(a.asname or a.name).split(".")[0] for s in imports for a in s.names if a.name != "*"]
    return f"used = lambda: [{', '.join(names)}]"


def expected(graph: str) -> set[str]:
    return {file if file.endswith(".py") else f"{file}.py" for file in GRAPHS[graph][2]}


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_modules_of_a_node(graph: str, tmp_path: Path) -> None:
    assert made_of(project(tmp_path, graph)) == {"n.py", *expected(graph)}


_IMPORT_ALL = """
import importlib, json, sys
task = lambda f: f
import builtins; builtins.task = task
loaded = {}
for graph, folder in json.load(sys.stdin).items():
    before = set(sys.modules)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    importlib.import_module("n")
    new = set(sys.modules) - before
    files = [getattr(sys.modules[m], "__file__", None) for m in new]
    loaded[graph] = [f for f in files if f and f.startswith(folder)]
    for m in new: del sys.modules[m]
    sys.path.remove(folder)
print(json.dumps(loaded))
"""


def test_nothing_that_python_imports_is_missed(tmp_path: Path) -> None:
    runnable = [graph for graph in GRAPHS if graph not in UNRUNNABLE]
    folders = {graph: str(project(tmp_path / str(n), graph) / "python") for n, graph in enumerate(runnable)}
    command = [sys.executable, "-c", _IMPORT_ALL]
    done = subprocess.run(command, input=json.dumps(folders), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    for graph, folder in folders.items():
        files = {Path(f).relative_to(folder).as_posix() for f in loaded[graph]}
        assert "n.py" in files and files <= {"n.py", *expected(graph)}, graph


# A module with two nodes and helpers, edits of it, and the nodes that are others afterwards.
BASE = {
    "python/n.py": '''\
"""Nodes."""
import dataclasses
from sqb import task
import shared

LIMIT = 10
PAGES = shared.Settings.pages

@dataclasses.dataclass
class Row:
    id: int = 0

def helper(x):
    return x + LIMIT

@task
def first(ctx):
    """The first."""
    import for_first
    return helper(1)  # one

@task(tags=["a"])
def second(ctx):
    import for_second
    fourth = 3
    return Row(2), fourth

@task(depends_on=first)
def third(ctx):
    return second(ctx)

@task
def fourth(ctx):
    return ctx.result_of("first")
''',
    "python/shared.py": "import below\n\nclass Settings:\n    pages = 3\n",
    "python/below.py": "X = {'a': 1}\n",
    "python/for_first.py": "",
    "python/for_second.py": "",
    "python/elsewhere.py": "from n import second\nfrom sqb import task\n\n@task\ndef fifth(ctx): return second(...)\n",
    "python/nobody.py": "",
}
ALL = {"first", "second", "third", "fourth", "fifth"}
EDITS: dict[str, tuple[str, str, str, set[str]]] = {
    "a comment": ("n.py", "# one", "# two", set()),
    "layout": ("n.py", "return helper(1)", "return helper(\n        1\n    )", set()),
    "lines above": ("n.py", "LIMIT = 10", "\n\n\n\nLIMIT = 10\n\n", set()),
    "the docstring of the module": ("n.py", "Nodes.", "Other nodes.", set()),
    "the docstring of a function": ("n.py", "The first.", "The one.", set()),
    "a function": ("n.py", "helper(1)", "helper(2)", {"first"}),
    "a function that others call": ("n.py", "Row(2)", "Row(3)", {"second", "third", "fifth"}),
    "a name that is only a variable elsewhere": ("n.py", 'result_of("first")', 'result_of("x")', {"fourth"}),
    "a constant": ("n.py", "LIMIT = 10", "LIMIT = 11", ALL),
    "a data class": ("n.py", "id: int = 0", "id: int = 1", ALL),
    "a type of a data class": ("n.py", "id: int = 0", "id: float = 0", ALL),
    "a helper": ("n.py", "x + LIMIT", "x - LIMIT", ALL),
    "an import": ("n.py", "LIMIT = 10", "import nobody\nLIMIT = nobody.X", ALL),
    "an import that nothing uses": ("n.py", "import shared", "import shared, nobody", set()),
    "an import of names that nothing uses": (
        "n.py",
        "import shared",
        "import shared\nfrom nobody import X as Y",
        set(),
    ),
    "an import that only a decorator uses": ("n.py", 'tags=["a"]', 'tags=["a", nobody.X]', set()),
    "the decorator": ("n.py", 'tags=["a"]', 'tags=["b"]', set()),
    "a decorator of one's own": ("n.py", "@task\ndef first", "@task\n@str\ndef first", {"first"}),
    "a module": ("shared.py", "pages = 3", "pages = 4", ALL),
    "a module below": ("below.py", "'a': 1", "'a': 2", ALL),
    "quotes": ("below.py", "'a'", '"a"', set()),
    "a number written differently": ("below.py", "1", "0x1", set()),
    "one for another type": ("below.py", "1", "True", ALL),
    "what only one imports": ("for_first.py", "", "X = 1", {"first"}),
    "what a called one imports": ("for_second.py", "", "X = 1", {"second", "third", "fifth"}),
    "a reader": ("elsewhere.py", "...", "1", {"fifth"}),
    "what nobody imports": ("nobody.py", "", "X = 1", set()),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_the_nodes_that_are_made_of_it(edit: str, tmp_path: Path) -> None:
    file, old, new, changed = EDITS[edit]
    before = identities(write(tmp_path, BASE))
    assert old in BASE[f"python/{file}"]
    write(tmp_path, {f"python/{file}": BASE[f"python/{file}"].replace(old, new, 1) if old else new})
    after = identities(tmp_path)
    assert {name for name in ALL if before[name] != after[name]} == changed


USES = {
    "called": "other(ctx)",
    "passed on": "list(map(other, [ctx]))",
    "looked up by its name": 'getattr(ctx, "other")',
    "taken from the module": 'globals()["other"]',
    "of another name's": "ctx.other()",
}
NO_USES = {
    "its name in a text": 'ctx.result_of("other")',
    "a variable": "[other for other in ctx]",
    "a parameter": "(lambda other: other)(1)",
    "an argument's name": "dict(other=1)",
}


@pytest.mark.parametrize("use", [*USES, *NO_USES])
def test_another_node_counts_where_it_is_used_by_name(use: str, tmp_path: Path) -> None:
    body = {**USES, **NO_USES}[use]
    text = f"@task\ndef node(ctx):\n    return {body}\n\n@task\ndef other(ctx):\n    import a\n    return 1\n"
    before = identities(write(tmp_path, {"python/n.py": text, "python/a.py": ""}))["node"]
    after = identities(write(tmp_path, {"python/n.py": text.replace("return 1", "return 2")}))["node"]
    assert (before != after) == (use in USES)
    assert ("python/a.py" in before[1]) == (use in USES)


def test_a_helper_of_another_node_counts_through_it(tmp_path: Path) -> None:
    module = "def work(): a()\n@task\ndef a(ctx): b()\n@task\ndef b(ctx): 1\n@task\ndef c(ctx): 1\n"
    files = {"python/n.py": "from m import work\n@task\ndef node(ctx): work()\n", "python/m.py": module}
    before = identities(write(tmp_path, files))

    def changed(old: str, new: str) -> set[str]:
        after = identities(write(tmp_path, {"python/m.py": module.replace(old, new)}))
        return {name for name in before if before[name] != after[name]}

    assert changed("b(ctx): 1", "b(ctx): 2") == {"node", "a", "b", "c"}
    assert changed("c(ctx): 1", "c(ctx): 2") == {"c"}


def test_docstrings_count_where_something_reads_them(tmp_path: Path) -> None:
    text = '"""Usage: x"""\nprint(__doc__)\n' + NODE
    before = identities(write(tmp_path, {"python/n.py": text}))
    assert before != identities(write(tmp_path, {"python/n.py": text.replace("Usage: x", "Usage: y")}))


def test_texts_are_those_that_count(tmp_path: Path) -> None:
    write(tmp_path, BASE)
    nodes = definitions(tmp_path)
    modules = Modules([tmp_path / "python"], [definition for _, definition in nodes.values()])
    text = modules.collect_contents(*nodes["third"]).texts[tmp_path / "python" / "n.py"]
    assert "LIMIT = 10" in text and "def second" in text
    assert not any(f"def {name}" in text for name in ("first", "third", "fourth"))


def test_modules_within_the_git_root_count_and_installed_ones_do_not(tmp_path: Path) -> None:
    files = {
        "python/n.py": "import own, third, venved, own_below\nused = lambda: (own, third, venved, own_below)\n" + NODE,
        "lib/own.py": "import own_too\n",
        "lib/own_too.py": "",
        "src/own_below/__init__.py": "from . import deep\n",
        "src/own_below/deep.py": "",
        ".venv/lib/python3.11/site-packages/third.py": "",
        "env/pyvenv.cfg": "",
        "env/lib/venved.py": "",
    }
    (tmp_path / ".git").mkdir()
    write(tmp_path, files)
    path = ["lib", "src", ".venv/lib/python3.11/site-packages", "env/lib", "nowhere"]
    assert made_of(tmp_path, path) == {
        "n.py",
        "lib/own.py",
        "lib/own_too.py",
        "src/own_below/__init__.py",
        "src/own_below/deep.py",
    }
    assert build_search_path(tmp_path / "python", [str(tmp_path / p) for p in path] + ["/usr/lib"], tmp_path) == (
        tmp_path / "python",
        tmp_path / "lib",
        tmp_path / "src",
    )


def test_the_projects_own_module_comes_first(tmp_path: Path) -> None:
    write(tmp_path, {"python/n.py": "import a\nused = a\n" + NODE, "python/a.py": "", "lib/a.py": ""})
    assert made_of(tmp_path, ["lib"]) == {"n.py", "a.py"}


def test_a_package_without_a_file_in_two_places(tmp_path: Path) -> None:
    write(tmp_path, {"python/n.py": "import s.a, s.b\nused = s\n" + NODE, "python/s/a.py": "", "lib/s/b.py": ""})
    assert made_of(tmp_path, ["lib"]) == {"n.py", "s/a.py", "lib/s/b.py"}


def test_sqb_itself_is_never_part_of_a_node(tmp_path: Path) -> None:
    own = Path(build_search_path.__code__.co_filename).parents[3]
    nodes = Modules([tmp_path, own])
    assert nodes.find_modules("sqb.decorators") == []


def test_the_git_root(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_git_root(below) == below
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n")
    assert find_git_root(below) == tmp_path
    (tmp_path / "a" / ".git").mkdir()
    assert find_git_root(below) == tmp_path / "a"
    assert not is_installed(below, tmp_path)


def test_a_module_that_nothing_uses_is_not_part_of_a_node(tmp_path: Path) -> None:
    text = f"import a\nfrom b import x, y\nX = x\n{NODE}"
    files = {"python/n.py": text, "python/a.py": "", "python/b.py": "x = y = 1"}
    before = identities(write(tmp_path, files))
    assert set(before["node"][1]) == {"python/n.py", "python/b.py"}
    assert identities(write(tmp_path, {"python/a.py": "X = 1"})) == before
    assert identities(write(tmp_path, {"python/n.py": text.replace(", y", "").replace("import a", "")})) == before
    assert identities(write(tmp_path, {"python/b.py": "x = y = 2"})) != before


def test_what_a_file_of_nodes_imports_for_others_counts_for_them(tmp_path: Path) -> None:
    files = {
        "python/n.py": f"from a import x\n{NODE}",
        "python/m.py": "from n import x\n@task\ndef other(ctx): return x\n",
        "python/a.py": "x = 1",
    }
    before = identities(write(tmp_path, files))
    after = identities(write(tmp_path, {"python/a.py": "x = 2"}))
    assert {name for name in before if before[name] != after[name]} == {"other"}
