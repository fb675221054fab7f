"""Python nodes as people meet them at the command line; nothing here starts Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cli.conftest import SQB, Folder, new_project
from sqb.lake.open import open_lake
from sqb.names import Relation
from sqb.workspace import open_workspace

CODE = '''
import os
import time
from pathlib import Path

from sqb import check, loader, on_failure, on_run_end, on_run_start, task


@loader(source="raw.orders")
def fetch(ctx):
    if "SKIP" in os.environ:
        ctx.skip(reason="nothing to fetch", mode=os.environ["SKIP"])
    ctx.write([{"id": 1, "day": ctx.vars["day"]}])
    if "WAIT" in os.environ:
        Path("started").write_text(str(os.getpid()))
        while not Path("go").exists():
            time.sleep(0.05)


@task(depends_on="raw.orders")
def count(ctx):
    return {"where": ctx.relation("raw.orders")}


@task(depends_on="seed:people")
def greet(ctx):
    if "RAISE" in os.environ:
        raise ValueError("not today")
    print("hello")


@task(depends_on=["greet", "people"])
def people(ctx):
    """Has the name of a seed, which it means, as it cannot mean itself."""


@check(depends_on="seed:people", severity="warn")
def doubtful(ctx):
    assert False, "people are few"


@on_run_start
def begin(ctx):
    if "NO_START" in os.environ:
        raise RuntimeError("the gate is closed")


@on_run_end
def end(ctx):
    Path("ended").write_text(" ".join(sorted(f"{r.name}={r.status}" for r in ctx.results)))


@on_failure
def tell(ctx):
    Path("told").write_text(" ".join(r.name for r in ctx.failures))
'''

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n[vars]\nday = "monday"\n',
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "python/nodes.py": CODE,
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A project without models, in a folder with a space below the root of a repository, built once."""
    root = tmp_path_factory.mktemp("repository")
    (root / ".git").mkdir()
    project = new_project(root / "my shop", FILES)
    done = project.here("build")
    assert done.code == 0, done.out + done.err
    assert "note: doubtful: people are few" in done.out + done.err
    return project


def ran(folder: Folder, *arguments: str, **env: str) -> dict[str, str]:
    """The nodes of the graph that a build ran, each with its status; how it was skipped for those that were not."""
    document = folder.here("build", "--json", *arguments, env=env).document
    assert document["summary"]["spark_started"] is False
    return {n["name"]: n["status"] for n in document["nodes"] if n["type"] != "hook" and n["action"] == "run"}


def test_nothing_is_run_twice_and_what_was_missed_is_made_up_for(shop: Folder) -> None:
    assert ran(shop) == {"fetch": "ok", "count": "skipped"}
    assert (shop.root / "ended").read_text() == "begin=ok count=skipped fetch=ok"
    # A loader alone, and then one that has nothing to fetch: what reads the source has not seen the rows of before.
    assert shop.here("load", "raw.orders", "--vars", "day=tuesday").code == 0
    assert ran(shop, SKIP="soft") == {"fetch": "skipped", "count": "ok"}
    assert ran(shop, SKIP="soft") == {"fetch": "skipped", "count": "skipped"}
    assert ran(shop, SKIP="hard") == {"fetch": "skipped", "count": "skipped"}
    assert ran(shop, "-s", "task:*", "--exclude", "loader:*") == {}


def test_a_node_that_failed_runs_again_though_nothing_changed(shop: Folder) -> None:
    only = ("-s", "greet task:people")
    assert ran(shop, *only) == {}
    assert ran(shop, *only, "--force", RAISE="1") == {"greet": "failed", "people": "blocked"}
    assert (shop.root / "told").read_text() == "greet"
    assert "run      greet" in shop.here("plan", "-s", "greet").out
    assert ran(shop, "-s", "greet") == {"greet": "ok"}
    assert ran(shop, "-s", "greet") == {}
    history = shop.here("history", "--node", "greet").lines
    assert [line.split()[2] for line in history[2:]] == ["ok", "failed", "ok"]


def test_a_warning_is_part_of_the_document(shop: Folder) -> None:
    document = shop.here("build", "--json", "-s", "doubtful", "--force").document
    (node,) = (n for n in document["nodes"] if n["name"] == "doubtful")
    assert node["status"] == "ok" and node["relation"] is None
    assert node["failures"][0]["severity"] == "warn" and node["failures"][0]["message"] == "people are few"


def test_freshness_knows_what_loaders_fill(shop: Folder) -> None:
    (result,) = shop.here("freshness", "--json").document["sources"]
    assert (result["name"], result["loader"], result["status"]) == ("raw.orders", "fetch", "new")
    assert result["value_kind"] == "snapshot" and result["age_seconds"] is not None
    assert "filled by fetch" in shop.here("freshness").out


def test_fingerprints_say_which_columns_a_table_has(shop: Folder) -> None:
    lake = open_lake(open_workspace(shop.root))
    row = next(r for r in lake.state.read_fingerprints(["seeds"]).values() if r.node_name == "seeds.people")
    (state,) = lake.read_tables([lake.list_pointers()[Relation("seeds", "people")]]).values()
    assert row.schema_hash == state.columns_token != ""


def test_a_hook_has_an_identity(shop: Folder) -> None:
    def reasons() -> dict[str, tuple[str, str]]:
        nodes = shop.here("build", "--json", "-s", "greet", "--force").document["nodes"]
        return {n["name"]: (n["reason"], n["detail"][:7]) for n in nodes if n["type"] == "hook"}

    assert {name: reason for name, (reason, _) in reasons().items()} == {"begin": "Every build", "end": "Every build"}
    code = (shop.root / "python/nodes.py").read_text()
    try:
        (shop.root / "python/nodes.py").write_text(code.replace("the gate is closed", "the gate is shut"))
        messages = shop.here("plan", "begin", "--explain").out
        assert "Code changed" in messages and "the gate is shut" in messages
        document = shop.here("plan", "hook:begin", "--explain", "--json").document
        assert [(n["name"], n["reason"]) for n in document["nodes"]] == [("begin", "Code changed")]
        assert reasons() == {"begin": ("Code changed", "source "), "end": ("Every build", "")}
        assert reasons()["begin"] == ("Every build", "")
    finally:
        (shop.root / "python/nodes.py").write_text(code)


def test_a_hook_that_fails_keeps_everything_from_running(shop: Folder) -> None:
    done = shop.here("build", env={"NO_START": "1"})
    assert done.code == 1 and "python/nodes.py:" in done.err and "the gate is closed" in done.err
    assert "[SKIP] fetch (a hook failed before anything ran)" in done.out
    assert (shop.root / "told").read_text() == "begin"


def test_a_python_node_is_explained(shop: Folder) -> None:
    assert ran(shop, SKIP="soft")["fetch"] == "skipped"
    out = shop.here("plan", "count", "--explain").out
    assert out.startswith("count (task)\npython/nodes.py:")
    assert "source raw.orders  snapshot" in out and "the same snapshot, and fetch runs before" in out
    out = shop.here("plan", "-s", "count", "--explain").out
    assert out.startswith("count (task)\n")
    with shop.with_files({"python/nodes.py": CODE.replace('print("hello")', 'print("hi")')}):
        out = shop.here("plan", "greet", "--explain").out
    assert "Code changed" in out and '+    print("hi")' in out
    document = shop.here("plan", "fetch", "--explain", "--json").document
    assert document["nodes"][0]["explain"]["last_run"]["run_type"] == "skip"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_node_leaves_nothing_and_is_run_again(shop: Folder, number: int) -> None:
    day = ("--vars", f"day=signal {number}")
    process = start(shop, *day)
    child = int((shop.root / "started").read_text())
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "[SKIP] fetch (the build was interrupted)" in out and "[SKIP] count (the build was interrupted)" in out
    assert not alive(child)
    assert "fetch=blocked" in (shop.root / "ended").read_text()
    assert ran(shop, *day) == {"fetch": "ok", "count": "ok"}


def test_a_killed_build_takes_its_nodes_along(shop: Folder) -> None:
    before = shop.lake()["iceberg_tables"]
    day = ("--vars", "day=killed")
    process = start(shop, *day)
    child = int((shop.root / "started").read_text())
    process.kill()
    process.communicate(timeout=60)
    until = time.monotonic() + 10
    while alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(child)
    assert shop.lake()["iceberg_tables"] == before
    assert ran(shop, *day) == {"fetch": "ok", "count": "ok"}


def test_of_two_builds_with_one_loader_the_second_runs_it_again(shop: Folder) -> None:
    first = start(shop, "--vars", "day=first")
    second = shop.here("build", "--vars", "day=second")
    (shop.root / "go").touch()
    out, err = first.communicate(timeout=60)
    assert second.code == 0 and "[OK] fetch" in second.out
    assert first.returncode == 0 and "[OK] fetch" in out and "[OK] count" in out, out + err
    assert "fetch: another build has loaded at the same time; running again, after its rows" in out + err


def start(folder: Folder, *arguments: str) -> subprocess.Popen[str]:
    """A build whose loader waits."""
    (folder.root / "started").unlink(missing_ok=True)
    env = {**os.environ, "WAIT": "1", "NO_COLOR": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([str(SQB), "build", *arguments], cwd=folder.root, env=env, text=True, **pipes)
    until = time.monotonic() + 60
    while not (folder.root / "started").is_file() or not (folder.root / "started").read_text():
        assert time.monotonic() < until and process.poll() is None, "the loader did not start"
        time.sleep(0.05)
    return process


def alive(pid: int) -> bool:
    """Whether a process does something; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


MODEL = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "python/a.py": "from sqb import loader\n@loader(source='raw.orders')\ndef fetch(ctx):\n    return [{'id': 7}]\n",
    "python/models/marts/scores.py": (
        'from sqb import model\n\n\n@model(kind="table")\ndef scores(ctx):\n    return ctx.ref("raw.orders")\n'
    ),
    "sources/raw.yml": (
        "sources:\n- name: raw.orders\n  managed: true\n"
        "  freshness: {strategy: adapter, age_policy: {error_after: 1s}}\n"
    ),
}


def test_a_source_is_not_judged_before_its_loader_ran(tmp_path: Path) -> None:
    shop = new_project(tmp_path / "shop", MODEL)
    planned = shop.here("plan", "--json").document
    assert {n["name"]: n["reason"] for n in planned["nodes"]} == {"fetch": "First run", "marts.scores": "First run"}
    done = shop.here("freshness")
    assert done.code == 1 and "SQB-D002" in done.err and "its loader fetch has not filled it" in done.err
    assert shop.here("load").code == 0
    time.sleep(1.1)
    assert shop.here("plan").code == 0
    # Without the loader the rows that stand are all that there will be.
    assert "Source too old: raw.orders is" in shop.here("plan", "--exclude", "loader:*").out
    assert "unchanged, too old" in shop.here("freshness").out or "new, too old" in shop.here("freshness").out


def test_what_is_no_sql_is_said_to_be_none(tmp_path: Path) -> None:
    shop = new_project(tmp_path / "shop", MODEL)
    assert "-- its rows come from scores(ctx) in python/models/marts/scores.py" in shop.here("compile").out
    (node,) = shop.here("compile", "--json").document["nodes"]
    assert node["sql"] is None and node["upstream"] == ["raw.orders"]
    out = shop.here("plan", "scores", "--explain").out
    assert out.startswith("marts.scores (table) → marts.scores\n") and "class opaque: its rows come from Python" in out
    shop.write({"tests/t.yml": "tests:\n- {name: one, model: scores, given: {orders: [{id: 1}]}, expect: [{id: 1}]}\n"})
    done = shop.here("plan")
    assert done.code == 2 and "tests/t.yml:2:22" in done.err and "unit tests are for models in SQL" in done.err


def test_a_wrong_name_is_underlined_where_it_is_said(tmp_path: Path) -> None:
    code = "from sqb import task\n@task\ndef lost(ctx):\n    found = ctx.result_of('lots')\n    return found\n"
    shop = new_project(tmp_path / "shop", {"sqlbuild_project.toml": 'name = "shop"\n', "python/a.py": code})
    done = shop.here("build")
    assert done.code == 1 and 'python/a.py:4:13: result_of("lots"): there is no Python node of that name' in done.err
    assert "did you mean 'lost'?" in done.err


CURSOR = """
from pathlib import Path

from sqb import loader


@loader(source="raw.events", mode="append")
def fetch(ctx):
    seen = (ctx.last_result or {"seen": 0})["seen"]
    new = [n for n in map(int, Path("events.txt").read_text().split()) if n > seen]
    if not new:
        ctx.skip(reason="nothing new")
    ctx.write([{"id": n} for n in new])
    return ctx.result({"seen": max(new)})
"""
TWO_TARGETS = """
name = "shop"

[targets.dev]
schema = "dev"

[targets.prod]
schema = "prod"

[janitor]
history_retention = "0s"
"""


def test_two_targets_on_one_lake_load_nothing_twice(tmp_path: Path) -> None:
    files = {"sqlbuild_project.toml": TWO_TARGETS, "python/a.py": CURSOR, "events.txt": "1 2"}
    shop = new_project(tmp_path / "shop", files)

    def load(target: str) -> None:
        done = shop.here("load", "--target", target)
        assert done.code == 0, done.out + done.err

    load("dev")
    load("prod")
    shop.write({"events.txt": "1 2 3"})
    load("prod")
    # Skips do not push the result that did something out of what the janitor leaves.
    for _ in range(3):
        load("prod")
        load("dev")
    for target in ("dev", "prod"):
        done = shop.here("janitor", "--target", target)
        assert done.code == 0, done.out + done.err
    shop.write({"events.txt": "1 2 3 4"})
    load("dev")
    lake = open_lake(open_workspace(shop.root))
    (state,) = lake.read_tables([lake.list_pointers()[Relation("raw", "events")]]).values()
    assert state.rows == 4


@pytest.mark.parametrize("command", [("load",), ("load", "fetch"), ("build",), ("build", "--force", "--full-refresh")])
def test_a_target_whose_loaders_are_off_loads_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    settings = TWO_TARGETS.replace('schema = "dev"', 'schema = "dev"\nloaders = "off"')
    shop = new_project(
        tmp_path / "shop", {"sqlbuild_project.toml": settings, "python/a.py": CURSOR, "events.txt": "1 2"}
    )
    assert shop.here("load", "--target", "prod").code == 0
    shop.write({"events.txt": "1 2 3"})
    done = shop.here(*command, "--target", "dev", "--json").document
    assert {(n["name"], n["status"], n["detail"]) for n in done["nodes"]} == {
        ("fetch", "skipped", "loaders are off in dev")
    }
    lake = open_lake(open_workspace(shop.root))
    (state,) = lake.read_tables([lake.list_pointers()[Relation("raw", "events")]]).values()
    assert state.rows == 2


def test_a_loader_that_was_killed_after_its_commit_loads_nothing_twice(tmp_path: Path) -> None:
    files = {"sqlbuild_project.toml": TWO_TARGETS, "python/a.py": CURSOR, "events.txt": "1 2"}
    shop = new_project(tmp_path / "shop", files)
    for events in ("1 2", "1 2 3"):
        shop.write({"events.txt": events})
        assert shop.sqb("load", env={"SQB_FAULT": "kill:published:fetch"}).code == -9
    for target in ("dev", "prod"):
        done = shop.here("load", "--target", target)
        assert done.code == 0 and "nothing new" in done.out, done.out + done.err
    shop.write({"events.txt": "1 2 3 4"})
    assert shop.here("load").code == 0
    lake = open_lake(open_workspace(shop.root))
    (state,) = lake.read_tables([lake.list_pointers()[Relation("raw", "events")]]).values()
    assert state.rows == 4
