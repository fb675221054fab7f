"""A project in which only edited models are read again is the one that compiling everything gives, to the byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sqb import compile as compiling
from sqb.cache import codec
from sqb.compile import project as whole
from sqb.errors.base import SqbError
from sqb.workspace import open_workspace
from support.examples import count_examples
from unit.folders import TOML, write

_CASES = Path(__file__).parents[2] / "cases"
_EXAMPLE = Path(compiling.__file__).parents[1] / "example"
PROJECTS = [_EXAMPLE, *sorted(path.parent / "project" for path in _CASES.glob("*/steps.yml"))]

Edit = Callable[[str], str]
# What people do to a model: most edits change it alone, some its readers too, and some break it.
EDITS: dict[str, Edit] = {
    "a comment at the end": lambda text: f"{text}\n-- more words\n",
    "lines before it": lambda text: f"\n\n{text}",
    "another number": lambda text: text.replace("1", "17").replace("2", "23"),
    "another query": lambda text: f"{_header(text)}\nSELECT 1 AS id, 'x' AS name, current_date() AS day\n",
    "a table of others": lambda text: f"{text.rstrip().rstrip(';')}\nUNION ALL SELECT * FROM elsewhere.things\n",
    "all rows of itself": lambda text: f"{_header(text)}\nSELECT * FROM {{itself}}\n",
    "a tag": lambda text: f"-- @tags: [edited]\n{text}",
    "another kind": lambda text: f"-- @kind: view\n{text}",
    "switched off": lambda text: f"-- @enabled: false\n{text}",
    "another schema": lambda text: f"-- @schema: other\n{text}",
    "a mistake": lambda text: f"{text}\n)) FROM (\n",
    "nothing": lambda text: "",
}


def _header(text: str) -> str:
    """The directives at the beginning of a model."""
    return "\n".join(line for line in text.splitlines() if line.startswith("-- @"))


def _copied(project: Path, folder: Path) -> Path:
    if project.is_dir():
        shutil.copytree(project, folder, ignore=shutil.ignore_patterns(".sqb", "lake"))
    folder.mkdir(exist_ok=True)
    if not (folder / "sqlbuild_project.toml").exists():
        (folder / "sqlbuild_project.toml").write_text('name = "sandbox"\n')
    return folder


def _outcome(root: Path, fresh: bool) -> tuple[str, ...]:
    """The compiled project as text, or the errors: from scratch, or by way of what is cached."""
    if fresh:
        shutil.rmtree(root / ".sqb", ignore_errors=True)
    try:
        project = open_workspace(root).project
    except SqbError as error:
        return ("wrong", str(error))
    return (codec.encode(project), *map(str, project.nodes), *map(str, project.externals))


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.parent.name if path != _EXAMPLE else "example")
def test_edits_of_one_model(project: Path, tmp_path: Path) -> None:
    root = _copied(project, tmp_path / "project")
    models = sorted((root / "models").rglob("*.sql"))
    if not models or _outcome(root, fresh=True)[0] == "wrong":
        return
    cache = tmp_path / "cache"
    shutil.copytree(root / ".sqb", cache)
    # Of each project a few edits, of all projects many of each: compiling everything twice for every edit takes long.
    place = PROJECTS.index(project)
    for index, model in enumerate(models[: count_examples(3, least=1)]):
        text = model.read_text()
        for what, edit in list(EDITS.items())[(place + index) % 6 :: 6]:
            shutil.rmtree(root / ".sqb", ignore_errors=True)
            shutil.copytree(cache, root / ".sqb")
            model.write_text(edit(text).replace("{itself}", model.stem))
            assert _outcome(root, fresh=False) == _outcome(root, fresh=True), (what, model.name)
        model.write_text(text)


RAW = """
sources:
  - name: raw.orders
  - name: raw.days
    expression: SELECT * FROM raw.all_days
"""
ORDERS = """
MODEL (kind table, constraints (not_null(id)));
SELECT id, day, amount FROM raw.orders
"""
DAILY = """
MODEL (kind table, audits (accepted_values(day, 1)));
SELECT o.day, sum(o.amount) * @@rate AS amount, @one() AS one FROM orders o JOIN days d ON d.day = o.day
GROUP BY o.day
"""
TESTS = """
tests:
  - name: adds up
    model: daily
    given:
      orders:
        - {id: 1, day: 2024-01-01, amount: 3}
      days:
        - {day: 2024-01-01}
    expect:
      - {day: 2024-01-01, amount: 6, one: 1}
  - name: with another rate
    model: daily
    vars: {rate: 5}
    given: {}
    expect: []
"""
ESTATE = {
    "sqlbuild_project.toml": TOML + "[vars]\nrate = 2\n",
    "sources/raw.yml": RAW,
    "functions/cents.sql": "CREATE FUNCTION cents(amount DECIMAL(10,2)) RETURNS BIGINT RETURN amount * 100",
    "macros/words.py": "def one():\n    return '1'\n",
    "seeds/countries.csv": "code,name\nde,Germany\n",
    "models/staging/orders.sql": ORDERS,
    "models/staging/days.sql": "-- @kind: view\nSELECT day FROM raw.days\n",
    "models/marts/daily.sql": DAILY,
    "models/marts/weekly.sql": "SELECT weekofyear(day) AS week, sum(amount) AS amount FROM daily GROUP BY 1\n",
    "models/marts/alone.sql": "SELECT code FROM countries\n",
    "tests/daily.yml": TESTS,
}
# Edits that concern the model and its readers only.
NARROW = {
    "a comment": ("staging/orders", "SELECT id", "SELECT /* the key */ id"),
    "lines that move a source": ("staging/orders", "SELECT id", "SELECT\n\n  id"),
    "another value": ("marts/daily", "sum(o.amount)", "sum(o.amount + 1)"),
    "another model is read": ("marts/weekly", "FROM daily", "FROM daily JOIN alone ON true"),
    "another model is read instead": ("marts/weekly", "FROM daily", "FROM orders"),
    "another check": ("staging/orders", "not_null(id)", "not_null(day)"),
    "a setting": ("marts/daily", "kind table,", "kind table, tags [money],"),
    "another macro": ("marts/weekly", "weekofyear(day)", "@one()"),
    "a view": ("staging/days", "SELECT day", "SELECT day, 1 AS x"),
}
# Edits of which others have to know, or that are mistakes.
WIDE = {
    "another source": ("staging/orders", "raw.orders", "raw.days"),
    "a source that nobody declared": ("staging/orders", "raw.orders", "raw.more"),
    "a function": ("staging/orders", "amount", "cents(amount) AS amount"),
    "a circle": ("marts/daily", "FROM orders o", "FROM weekly o"),
    "a name that nobody has": ("marts/weekly", "FROM daily", "FROM __ref('dayly')"),
    "a test that does not fit any more": ("marts/daily", "orders o", "alone o"),
    "another kind": ("staging/orders", "kind table", "kind view"),
    "switched off": ("marts/weekly", "SELECT week", "-- @enabled: false\nSELECT week"),
}


def _edit(root: Path, edit: tuple[str, str, str]) -> None:
    file, old, new = edit
    path = root / "models" / f"{file}.sql"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("what", NARROW)
def test_edits_that_read_one_model(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, ESTATE)
    open_workspace(root)
    _edit(root, NARROW[what])
    with monkeypatch.context() as patch:
        patch.setattr(whole, "compile_project", lambda *_: pytest.fail("everything was compiled"))
        edited = _outcome(root, fresh=False)
        assert open_workspace(root).from_cache
        assert _outcome(root, fresh=False) == edited
    assert edited == _outcome(root, fresh=True)


@pytest.mark.parametrize("what", WIDE)
def test_edits_that_compile_everything(what: str, tmp_path: Path) -> None:
    root = write(tmp_path, ESTATE)
    open_workspace(root)
    _edit(root, WIDE[what])
    assert _outcome(root, fresh=False) == _outcome(root, fresh=True)


def test_one_edit_after_the_other(tmp_path: Path) -> None:
    root = write(tmp_path, ESTATE)
    open_workspace(root)
    for what in ("a comment", "another value", "another check", "a view", "a setting"):
        _edit(root, NARROW[what])
        edited = _outcome(root, fresh=False)
    assert edited == _outcome(root, fresh=True)


def test_an_edit_that_is_taken_back_needs_no_parser(tmp_path: Path) -> None:
    root = write(tmp_path, ESTATE)
    before = _outcome(root, fresh=True)
    file = root / "models/marts/weekly.sql"
    text = file.read_text()
    for edited in (f"{text} -- more", text):
        file.write_text(edited)
        workspace = open_workspace(root)
    assert not workspace.from_cache and not workspace.outlines
    assert _outcome(root, fresh=False) == before
