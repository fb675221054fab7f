"""`sqb diff` on the command line: what is wrong about a call is said before Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Done, Folder, build_all, new_project, quiet

TOML = 'name = "shop"\ndefault_target = "dev"\n[targets.dev]\nschema = "dev"\n[targets.prod]\nschema = "prod"\n'
MODELS = {"models/m.sql": "SELECT id FROM people", "models/c.sql": "-- @enabled: false\nSELECT 1 AS x"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    files = {"sqlbuild_project.toml": TOML, "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n", "seeds/a.csv": "id\n1\n"}
    return build_all(new_project(tmp_path_factory.mktemp("seeds"), files))


def test_a_project_without_nodes(tmp_path: Path, sqb_here: Callable[..., Done]) -> None:
    empty = new_project(tmp_path / "empty", {"sqlbuild_project.toml": TOML})
    done = sqb_here(empty, "diff", "people")
    assert done.code == 2 and 'error[SQB-C003]: nothing is called "people"' in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["peple"], "SQB-C003", 'nothing is called "peple"', "did you mean 'people'"),
        (["*"], "SQB-C001", 'a diff is of one node, and "*" means 3', "name one"),
        (["m"], "SQB-C006", "default.m is not built in the target dev", "`sqb build -s default.m` builds it"),
        (["people", "--target", "prod"], "SQB-C006", "seeds.people is not built in the target prod", "`sqb build"),
        (["people", "--against", "prod"], "SQB-C006", "seeds.people is not built in the target prod", "`sqb build"),
        (["people", "--against", "dev"], "SQB-C001", 'both sides are the target "dev"', "--against names another"),
        (["people", "--against", "prd"], "SQB-C004", 'there is no target "prd"', "did you mean"),
        (["people", "--snapshot", "12x"], "SQB-C007", 'dev.people has no snapshot "12x"', "there are "),
        (["people", "--to-snapshot", "1"], "SQB-C001", "--to-snapshot needs --snapshot", "--snapshot names"),
        (
            ["people", "--snapshot", "1", "--against", "prod"],
            "SQB-C001",
            "--against and --snapshot are two",
            "give one",
        ),
        (["people", "--key", "a,,b"], "SQB-C001", '--key "a,,b" is not a list of columns', "write --key a"),
        (["people", "--limit", "-1"], "SQB-C001", "invalid value for '--limit'", "`sqb diff --help`"),
    ],
)
def test_wrong_calls(folder: Folder, arguments: list[str], code: str, message: str, hint: str) -> None:
    with folder.with_files(MODELS):
        done = folder.here("diff", *arguments)
        machine = folder.here("diff", *arguments, "--json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error[{code}]: {message}"), done.err
    assert f"hint: {hint}" in done.err
    assert [e["code"] for e in machine.document["errors"]] == [code]


def test_a_seed_against_its_file(folder: Folder, sqb_here: Callable[..., Done]) -> None:
    with folder.with_files({"seeds/people.csv": "id,name\n1,Ada\n2,Hopper\n3,Edsger\n"}):
        done = sqb_here(folder, "diff", "people", "--key", "ID", "--exit-code")
        machine = sqb_here(folder, "diff", "people", "--json")
    assert done.code == 1 and quiet(done)
    assert done.lines[3:-1] == [
        "Rows by id: 1 added, 0 removed, 1 changed, 1 unchanged",
        "  changed in name (1)",
        "    id  name",
        "  + 3   Edsger",
        "  ~ id=2  name Grace → Hopper",
    ]
    assert machine.code == 0
    assert machine.document["rows"] == {"added": 2, "removed": 1, "changed": None, "unchanged": 1, "by_column": None}
    assert (machine.document["target"], machine.document["name"]) == ("dev", "seeds.people")
