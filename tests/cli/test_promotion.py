"""Promotion, rollback and comparison of environments from the command line: of seeds, which need no Java."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from cli.conftest import SEEDS, Folder, build_all, new_project
from sqb.environments.session import open_workspace_store
from sqb.workspace import open_workspace

VIRTUAL = 'name = "shop"\n[virtual]\nenabled = true\n'
_CHANGES = re.compile(r"\b[0-9a-f]{8}\b|\b[0-9.]+m?s\b|\d{4}-\d\d-\d\d \d\d:\d\d")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """`dev` as it was built first, and `pr_1` in which a seed was changed and another one added."""
    root = tmp_path_factory.mktemp("promotion")
    results = build_all(new_project(root / "a project", {**SEEDS, "sqlbuild_project.toml": VIRTUAL}))
    results.write({"seeds/people.csv": "id,name,age\n1,Ada,36\n", "seeds/colours.csv": "name\nred\n"})
    assert results.here("build", "--virtual-env", "pr_1").code == 0
    return results


def list_lines(text: str) -> list[str]:
    """The lines of an output without what is different each time."""
    return [_CHANGES.sub("…", line).rstrip() for line in text.splitlines()]


def views(folder: Folder, environment: str) -> set[str]:
    with sqlite3.connect(folder.root / "lake" / "catalog.db") as connection:
        rows = connection.execute(
            "SELECT table_name FROM iceberg_tables WHERE table_namespace = ?", (f"seeds__{environment}",)
        )
        return {name for (name,) in rows}


def test_from_review_to_promotion_and_back(folder: Folder) -> None:
    result = folder.here("diff", "--from", "pr_1", "--to", "dev", "--exit-code")
    assert result.code == 1 and list_lines(result.out) == [
        "pr_1 compared with dev",
        "+ seeds.colours  only in pr_1; …; 1 row",
        "~ seeds.people   Query changed; … → …; 2 → 1 row",
        "    + age bigint",
        "2 nodes differ, 1 the same.",
        "(…)",
    ]
    lake = folder.lake()
    dry = folder.here("promote", "--from", "pr_1", "--to", "dev", "--dry-run")
    assert folder.lake() == lake
    assert list_lines(dry.out) == [
        "+ seeds.colours  …",
        "~ seeds.people   … → …",
        "Would promote 2 nodes from pr_1 to dev, status finalized, 0 models executed (…)",
    ]
    done = folder.here("promote", "--from", "pr_1", "--to", "dev")
    assert (done.code, done.err) == (0, "")
    assert list_lines(done.out)[-1] == (
        "Promoted 2 nodes from pr_1 to dev: 2 views moved, status finalized, checkpoint 2, 0 models executed (…)"
    )
    assert views(folder, "dev") == {"people", "places", "colours"}
    assert list_lines(folder.here("promote", "--from", "pr_1", "--to", "dev").out) == [
        "Nothing to promote: dev has everything of pr_1, 0 models executed (…)"
    ]
    assert folder.here("diff", "--from", "pr_1", "--exit-code").code == 0
    assert "Nothing to do" in folder.here("build").out, "what was promoted is built"

    back = folder.here("rollback")
    assert list_lines(back.out) == [
        "- seeds.colours  …",
        "~ seeds.people   … → …",
        "Rolled dev to checkpoint 1 (build, …): 2 views moved, status finalized, 0 models executed (…)",
    ]
    assert views(folder, "dev") == {"people", "places"}
    first = folder.here("rollback")
    assert first.code == 2 and first.err.startswith("error[SQB-V012]: dev is at its first checkpoint")
    forward = folder.here("rollback", "--checkpoint", "2", "--json").document
    assert forward["checkpoint"]["number"] == 2 and forward["summary"]["views"] == 2
    assert folder.here("rollback").code == 0


@pytest.mark.parametrize("step", ["environment begun", "views moved"])
def test_a_promotion_that_is_killed_is_finished_by_the_next_command(folder: Folder, step: str) -> None:
    at_first = folder.here("state", "checkpoints", "list", "--json").document
    killed = folder.sqb("promote", "--from", "pr_1", "--to", "dev", env={"SQB_FAULT": f"kill:{step}:dev"})
    assert killed.code == -9
    # It finishes the promotion, and then goes back from there.
    assert folder.here("rollback", "--json").document["summary"]["views"] == 2
    assert views(folder, "dev") == {"people", "places"}
    now = folder.here("state", "checkpoints", "list", "--json").document
    assert len(now["checkpoints"]) == len(at_first["checkpoints"]) + 1


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("promote --from nobody --to dev", 2, "error[SQB-V003]: there is no virtual environment nobody"),
        ("promote --from dev --to dev", 2, "error[SQB-C001]: dev cannot be promoted to itself"),
        ("promote --from pr_1 --to dev -s nothing", 2, 'error[SQB-C003]: nothing is called "nothing"'),
        ("promote --from pr_1 --to pr_9", 2, "error[SQB-V003]: there is no virtual environment pr_9"),
        ("rollback --virtual-env pr_9", 2, "error[SQB-V003]: there is no virtual environment pr_9"),
        ("rollback --checkpoint 99", 2, 'error[SQB-V012]: dev has no checkpoint "99"'),
        ("diff --from dev --to dev", 2, "error[SQB-C001]: both sides are the virtual environment dev"),
        ("diff --to dev", 2, "error[SQB-C001]: --from and --to compare two virtual environments"),
        ("diff", 2, "error[SQB-C001]: a diff is of one node"),
    ],
)
def test_calls_that_are_wrong(folder: Folder, call: str, code: int, message: str) -> None:
    done = folder.here(*call.split())
    assert (done.code, done.out) == (code, "") and done.err.startswith(message)


def test_a_project_without_environments(tmp_path: Path) -> None:
    plain = new_project(tmp_path / "plain", {"sqlbuild_project.toml": 'name = "shop"\n'})
    done = plain.here("promote", "--from", "a", "--to", "b")
    assert done.code == 2 and done.err.startswith("error[SQB-V002]: this project has no virtual environments")


TASK = """
from pathlib import Path

from sqb import task


@task(depends_on=["seeds.people", "seeds.places"])
def tell(ctx):
    assert not Path("broken").exists(), "broken"
"""


def test_what_a_failed_build_left_is_promoted_only_as_a_part(tmp_path: Path) -> None:
    files = {**SEEDS, "sqlbuild_project.toml": VIRTUAL, "python/tasks/tell.py": TASK}
    shop = build_all(new_project(tmp_path / "shop", files))
    shop.write({"seeds/people.csv": "id,name\n1,Ada\n"})
    assert shop.here("build", "--virtual-env", "pr").code == 0
    assert status(shop, "pr") == "finalized"
    # The next build of it fails: nothing of it is shown, and the environment is not finalized any more.
    shop.write({"seeds/places.csv": "id,place\n1,Paris\n", "broken": ""})
    failed = shop.here("build", "--virtual-env", "pr", "--json")
    assert failed.code == 1 and failed.document["environment"]["status"] == "working"
    assert status(shop, "pr") == "working"
    # Also where all is as it was built: what failed was not seen to succeed.
    shop.write({"seeds/places.csv": SEEDS["seeds/places.csv"]})
    assert status(shop, "pr") == "working"
    before = shown(shop, "dev")
    refused = shop.here("promote", "--from", "pr", "--to", "dev")
    assert refused.code == 1 and "error[SQB-V010]: pr is not finalized" in refused.err
    assert "--allow-partial-promotion" in refused.err
    assert shown(shop, "dev") == before and status(shop, "dev") == "working", "people is stale in dev"
    done = shop.here("promote", "--from", "pr", "--to", "dev", "--allow-partial-promotion")
    assert done.code == 0 and "Promoted 1 node from pr to dev" in done.out, done.out + done.err
    assert shown(shop, "dev") == {**before, "seeds.people": shown(shop, "pr")["seeds.people"]} != before
    # Once a build has succeeded, no more has to be allowed.
    (shop.root / "broken").unlink()
    shop.write({"seeds/places.csv": "id,place\n1,Paris\n"})
    assert shop.here("build", "--virtual-env", "pr").code == 0 and status(shop, "pr") == "finalized"
    assert shop.here("promote", "--from", "pr", "--to", "dev").code == 0
    assert shown(shop, "dev") == shown(shop, "pr") and status(shop, "dev") == "finalized"


def status(folder: Folder, environment: str) -> str:
    entry: str = folder.here("plan", "--virtual-env", environment, "--json").document["environment"]["status"]
    return entry


def shown(folder: Folder, environment: str) -> dict[str, str]:
    """The tables and snapshots that an environment shows, by node."""
    refs = open_workspace_store(open_workspace(folder.root)).read_refs(environment)
    return {name: f"{ref.binding.relation} {ref.binding.snapshot_id}" for name, ref in refs.items()}
