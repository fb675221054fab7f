"""What commands print at terminals of 80 and 100 columns: nothing is wider, and lines break between words.

Every command of the tree is in `CALLS`, or in `SILENT` with the reason why it prints nothing that could be too wide:
a new one fails here until it is in either.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from cli.conftest import Folder, new_project
from sqb.cli.main import sqb
from sqb.console.style import measure_text
from support.dbt_shop import new_shop

if TYPE_CHECKING:
    from sqb.spark.engine import Engine

WIDTHS = (80, 100)
# Words that cannot be broken: names that people copy.
LONG_NAME = "a_mart_with_quite_a_long_name_that_says_all"
FILES = {
    f"models/marts/{LONG_NAME}.sql": "SELECT order_id, customer_id, total FROM fct_orders WHERE total > 10\n",
    "models/marts/lines_of_a_log.sql": "MODEL (kind append);\nSELECT * FROM stg_order_lines\n",
}
EDITS = {
    "models/staging/stg_customers.sql": ("concat_ws(' '", "concat_ws(', '"),
    "seeds/customers.csv": ("Anna", "Hanna"),
}
VIRTUAL = {
    "sqlbuild_project.toml": 'name = "shop"\n[virtual]\nenabled = true\n',
    **{f"seeds/a_seed_with_quite_a_long_name_{n}.csv": "id\n1\n" for n in range(3)},
}

# Calls by the command's path, and the project that they are for.
CALLS: dict[str, list[str]] = {
    "plan": ["plan", "plan -v", "plan --full-refresh", "plan customer_revenue --explain", "plan -s nothing_like_it"],
    "build": ["build", "build -s stg_order_lines --force"],
    "watch": ["watch --once --plan-only"],
    "load": ["load"],
    "test": ["test", "test --force", "test -v"],
    "validate": ["validate"],
    "lint": ["lint"],
    "format": ["format --check"],
    "list": ["list", "list --output path"],
    "lineage": ["lineage", "lineage fct_orders", "lineage fct_orders.total"],
    "diff": ["diff customer_revenue", "diff stg_customers --limit 3"],
    "query": ["query --no-pager 'select * from fct_orders' --limit 3", "query 'select 1 as x from fct_order'"],
    "show": ["show --no-pager customer_revenue", "show --no-pager stg_customers --limit 2"],
    "freshness": ["freshness"],
    "history": ["history", "history --node fct_orders"],
    "docs build": ["docs build"],
    "explain": ["explain", "explain SQB-R002", "explain SQB-V016"],
    "engine status": ["engine status"],
    "engine stop": ["engine stop"],
    "drop": ["drop --dry-run"],
    "janitor": ["janitor --dry-run", "janitor"],
    "version": ["version"],
}
VIRTUAL_CALLS: dict[str, list[str]] = {
    "plan": ["plan --virtual-env pr_a_long_name_of_a_branch"],
    "build": ["build", "build --virtual-env pr_a_long_name_of_a_branch"],
    "diff": ["diff --from pr_a_long_name_of_a_branch --to dev"],
    "promote": [
        "promote --from pr_a_long_name_of_a_branch --to dev --dry-run",
        "promote --from pr_a_long_name_of_a_branch --to dev",
    ],
    "history": ["history"],
    "rollback": ["rollback --dry-run", "rollback"],
    "state init": ["state init"],
    "state show": ["state show", "state show --virtual-env dev"],
    "state migrate": ["state migrate"],
    "state adopt": ["state adopt --dry-run"],
    "state pair": ["state pair --yes"],
    "state checkpoints": [
        "state checkpoints",
        "state checkpoints list",
        "state checkpoints show 1",
        "state checkpoints diff 1 2",
    ],
    "state detach": ["state detach dev"],
    "state reattach": ["state reattach dev"],
    "janitor": ["janitor --dry-run"],
    "state remove": ["state remove pr_a_long_name_of_a_branch --yes"],
}
DBT_CALLS: dict[str, list[str]] = {
    f"dbt {name}": [f"dbt {name}"] for name in ("plan", "build", "run", "test", "seed", "snapshot", "compile")
}
SILENT = {
    "init": "prints the name of the folder, and lines that tests of it have word by word",
    "compile": "prints SQL, whose lines stay as they were written",
    "docs serve": "prints an address, and serves until it is stopped",
    "engine start": "starts a Spark that stays; prints what `engine status` does",
    "lsp": "speaks to editors",
    "completion": "prints a script for shells",
}


def iter_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group, info_name=group.name)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield (*path, name), command
        if isinstance(command, click.Group):
            yield from iter_commands(command, (*path, name))


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


Print = Callable[[Path, str, int], list[str]]


@pytest.fixture(scope="module")
def print_at(engine: Engine) -> Iterator[Print]:
    """Runs a command at a terminal with so many columns, on the Spark of the test run: what it prints."""
    import shlex
    from contextlib import redirect_stderr, redirect_stdout

    from sqb.cli import main
    from support.engine import EngineOfLake, LakeSessions

    def start(*, place: Any, **_: Any) -> EngineOfLake:
        return EngineOfLake(LakeSessions(engine, place))

    def run(folder: Path, call: str, width: int) -> list[str]:
        out, err = Terminal(), Terminal()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr("sqb.spark.session.local.start_engine", start)
            patch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((width, 40)))
            patch.setenv("TERM", "dumb")
            patch.setenv("SQB_ENGINE", "off")
            patch.setenv("COLUMNS", str(width))
            patch.setenv("FAKE_DBT_LOG", str(folder / "calls.jsonl"))
            patch.setenv("FAKE_DBT_LAKE", str(folder / "lake"))
            patch.chdir(folder)
            main.run(shlex.split(call))
        return [*out.getvalue().splitlines(), *err.getvalue().splitlines()]

    yield run


@pytest.fixture(scope="module")
def shop(print_at: Print, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with models of long names, built, and edited since."""
    root = tmp_path_factory.mktemp("widths") / "shop"
    print_at(root.parent, "init shop", 80)
    folder = Folder(root)
    folder.write({**FILES, "models/marts/gone.sql": "SELECT 1 AS one\n"})
    assert print_at(root, "build", 80)[-1].startswith("Done: 18 ran")
    (root / "models/marts/gone.sql").unlink()
    for name, (before, after) in EDITS.items():
        folder.write({name: (root / name).read_text().replace(before, after)})
    return root


@pytest.fixture(scope="module")
def virtual(print_at: Print, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two environments that differ."""
    folder = new_project(tmp_path_factory.mktemp("widths") / "virtual", VIRTUAL)
    print_at(folder.root, "build", 80)
    folder.write({"seeds/a_seed_with_quite_a_long_name_1.csv": "id\n2\n"})
    return folder.root


def is_too_wide(line: str, width: int) -> bool:
    """Whether a line could be narrower: one word alone that has no room cannot."""
    return measure_text(line) > width and len(line.split()) > 1


def find_wide_lines(print_at: Print, folder: Path, calls: list[str], width: int) -> list[str]:
    wide = []
    for call in calls:
        lines = print_at(folder, call, width)
        assert lines, call
        assert not any("Traceback" in line or "a mistake in sqb" in line for line in lines), lines
        wide += [f"{call}: {line}" for line in lines if is_too_wide(line, width)]
    return wide


def test_every_command_is_here() -> None:
    paths = {" ".join(path) for path, _ in iter_commands(sqb)}
    assert paths == {*CALLS, *VIRTUAL_CALLS, *DBT_CALLS, *SILENT}
    assert not SILENT.keys() & {*CALLS, *VIRTUAL_CALLS, *DBT_CALLS}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", CALLS)
def test_output(shop: Path, print_at: Print, command: str, width: int) -> None:
    assert find_wide_lines(print_at, shop, CALLS[command], width) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_output_with_environments(virtual: Path, print_at: Print, width: int) -> None:
    calls = [call for calls in VIRTUAL_CALLS.values() for call in calls]
    assert find_wide_lines(print_at, virtual, calls, width) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_output_of_dbt(print_at: Print, tmp_path: Path, width: int) -> None:
    shop = new_shop(tmp_path)
    shop.commit_source(1)
    calls = [call for calls in DBT_CALLS.values() for call in calls]
    assert find_wide_lines(print_at, shop.root, calls, width) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", [path for path, _ in iter_commands(sqb)], ids=" ".join)
def test_help(path: tuple[str, ...], width: int, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """As people ask for it: no line is wider, none is cut, and every option has its sentence to the end."""
    from sqb.cli import main

    monkeypatch.setenv("COLUMNS", str(width))
    assert main.run([*path, "--help"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0].startswith(f"Usage: sqb {' '.join(path)}")
    assert not [line for line in lines if len(line) > width]
    command = dict(iter_commands(sqb))[path]
    flat = " ".join(text.split())
    for option in command.params:
        if isinstance(option, click.Option) and option.help and not option.hidden:
            assert " ".join(option.help.split()) in flat, option.name
