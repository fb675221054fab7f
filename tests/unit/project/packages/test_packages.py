"""`[packages]`: macros, audits and functions of installed Python packages."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sqb.cli.main import run
from sqb.errors.base import SqbError, flatten
from sqb.errors.project import BadAudit, BadFunction, BadPackage, DuplicateKey
from sqb.lsp.python_names import list_macros
from sqb.lsp.snapshot import Snapshot
from sqb.lsp.symbols import find_audit
from sqb.names import At
from sqb.project.functions.python import load_python
from sqb.project.packages.requirement import find_requirement_problem, is_met
from sqb.workspace import Workspace, open_workspace
from support.acme_package import install_package
from unit.folders import write

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n[packages]\nacme_checks = ">=1.2,<2"\n',
    "seeds/orders.csv": "id,amount,day\n1,1.234,2024-01-01\n",
    "models/marts/sales.sql": (
        "-- @audits: [no_future_dates(column => day)]\n"
        "SELECT id, day, @cents(amount) AS amount, net(amount) AS net, with_currency('1') AS word FROM orders\n"
    ),
    "models/marts/plain.sql": "SELECT id FROM orders\n",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    install_package(monkeypatch, site)
    return site


@pytest.fixture
def project(tmp_path: Path, site: Path) -> Path:
    return write(tmp_path / "shop", FILES)


def catch(root: Path) -> list[SqbError]:
    with pytest.raises(SqbError) as caught:
        open_workspace(root)
    return list(flatten(caught.value))


def get_hashes(workspace: Workspace) -> dict[str, str]:
    return {node.name: node.local_hash for node in workspace.project}


def let_time_pass(*folders: Path) -> None:
    """Make files old enough for their stamps to count."""
    old = time.time() - 10
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            os.utime(path, (old, old))


def test_models_use_what_a_package_has(project: Path, site: Path) -> None:
    workspace = open_workspace(project)
    sales = workspace.project.nodes["marts.sales"]
    assert "round(amount, 2) AS amount" in sales.sql and "/ 1.19" in sales.sql
    assert set(sales.functions) == {"@cents", "net", "with_currency"}
    (check,) = sales.checks.checks
    assert check.name == "no_future_dates"
    (function,) = [f for f in workspace.project.functions if f.name == "with_currency"]
    assert function.file == (site / "acme_checks/functions/words.py").as_posix()
    from sqb.errors.base import Errors

    loaded = load_python(project, function.file, [function.symbol], Errors())
    assert loaded["with_currency"]("1") == "1 EUR"
    # Nothing of it stays imported: another version may come.
    assert "acme_checks.money" not in sys.modules


def test_contents_are_part_of_the_identity(project: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = get_hashes(open_workspace(project))
    # The same files elsewhere, as another version: the same identity.
    other = site.with_name("other")
    install_package(monkeypatch, other, "1.3.0")
    moved = open_workspace(project)
    assert not moved.from_cache and get_hashes(moved) == first
    # What a macro imports of its package counts; what is not used does not.
    money = other / "acme_checks/money.py"
    money.write_text(money.read_text().replace("round(", "bround("))
    changed = get_hashes(open_workspace(project))
    assert changed["marts.sales"] != first["marts.sales"] and changed["marts.plain"] == first["marts.plain"]


def test_another_version_renews_the_cache(project: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_workspace(project)
    let_time_pass(project, site)
    open_workspace(project)
    assert open_workspace(project).from_cache
    (site / "acme_checks/audits/more.sql").write_text("SELECT * FROM @@this WHERE @@column IS NULL\n")
    assert not open_workspace(project).from_cache
    assert open_workspace(project).from_cache
    install_package(monkeypatch, site, "1.9")
    assert not open_workspace(project).from_cache
    install_package(monkeypatch, site, "2.0")
    (error,) = catch(project)
    assert isinstance(error, BadPackage) and error.code == "SQB-P020"
    assert error.message == 'the package "acme_checks" is installed as 2.0, and >=1.2,<2 is asked for'
    assert error.hint == "pip install 'acme-checks>=1.2,<2'"
    assert error.at == At("sqlbuild_project.toml", 3, 1, 11)


def test_an_edit_of_a_model_is_enough_for_that_model(project: Path) -> None:
    open_workspace(project)
    (project / "models/marts/plain.sql").write_text("SELECT @cents(amount) AS a FROM orders\n")
    assert open_workspace(project).project.nodes["marts.plain"].sql.startswith("SELECT round(amount, 2)")


def test_names_that_clash_are_reported_with_both_places(project: Path, site: Path) -> None:
    write(
        project,
        {
            **FILES,
            "macros/own.py": "def cents(column):\n    return column\n",
            "functions/net.sql": "CREATE FUNCTION net(x DOUBLE) RETURNS DOUBLE RETURN x\n",
            "audits/no_future_dates.sql": "SELECT * FROM @@this\n",
        },
    )
    by_code = {error.code: error for error in catch(project)}
    macro = by_code[DuplicateKey.code]
    assert macro.message == "the macro @cents is also defined at macros/own.py:1:1"
    assert macro.at is not None and macro.at.file == (site / "acme_checks/macros/amounts.py").as_posix()
    assert by_code[BadFunction.code].message == "the function net is also declared in functions/net.sql"
    assert by_code[BadAudit.code].message == 'the audit "no_future_dates" is also in audits/no_future_dates.sql'


@pytest.mark.parametrize(
    ("line", "code", "message", "hint"),
    [
        ('nowhere = "*"', "SQB-P020", 'the package "nowhere" is not installed', "install it into"),
        ('json = "*"', "SQB-P020", 'the package "json" has no macros, audits or functions', "a package has them"),
        ('json = ">1"', "SQB-P020", 'the package "json" has no version, and >1 is asked for', 'write "*"'),
        ('"a-b" = "*"', "SQB-P003", '"a-b" is not the import name of a package', "write what Python code imports"),
        ('acme_checks = "1.2"', "SQB-P003", '`acme_checks` must be a version requirement, not "1.2"', 'such as ">=1.2'),
        ("acme_checks = 1", "SQB-P003", "`acme_checks` must be text, not 1", "put it in quotes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, site: Path, line: str, code: str, message: str, hint: str) -> None:
    root = write(tmp_path / "shop", {"sqlbuild_project.toml": f'name = "shop"\n[packages]\n{line}\n'})
    (error,) = catch(root)
    assert (error.code, error.message, error.at and error.at.line) == (code, message, 3)
    assert (error.hint or "").startswith(hint)


def test_validate_and_editors_know_them(
    project: Path, site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr("sys.argv", ["sqb"])
    assert run(["validate"]) == 0
    snapshot = Snapshot(project, open_workspace(project))
    (macro,) = list_macros(snapshot)
    assert (macro.call, macro.text) == ("cents(column)", "A column in cents.")
    assert macro.file == (site / "acme_checks/macros/amounts.py").as_posix()
    assert find_audit(snapshot, "no_future_dates") == (site / "acme_checks/audits/no_future_dates.sql").as_posix()


def test_a_project_without_packages_loads_nothing_of_them(tmp_path: Path) -> None:
    root = write(tmp_path, {"seeds/a.csv": "id\n1\n"})
    code = (
        "import sys; from pathlib import Path; from sqb.workspace import open_workspace;"
        "open_workspace(Path('.')); print('sqb.project.packages.installed' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("requirement", "version", "expected"),
    [
        ("*", "0.1", True),
        (">=1.2,<2", "1.2", True),
        (">=1.2,<2", "1.10.3", True),
        (">=1.2,<2", "1.1.9", False),
        (">=1.2,<2", "2.0", False),
        ("<2", "2.0rc1", False),
        ("<2", "1.9.post1", True),
        (">=1.0", "1.0rc1", False),
        ("==1.2", "1.2.0", True),
        ("==1.2.*", "1.2.7", True),
        ("!=1.2.*", "1.2.7", False),
        ("~=1.4", "1.9", True),
        ("~=1.4.2", "1.5", False),
        ("> 1.0", "1.0.1", True),
        ("==1.0", "1.0+local", True),
    ],
)
def test_requirements(requirement: str, version: str, expected: bool) -> None:
    assert find_requirement_problem(requirement) is None
    assert is_met(requirement, version) is expected


@pytest.mark.parametrize("text", ["", "1.2", ">=", "=1", ">=1.2 <2", "~=1", ">1.*", "latest"])
def test_what_is_not_a_requirement(text: str) -> None:
    assert find_requirement_problem(text) is not None
