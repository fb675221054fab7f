"""`Project.format` and `Project.lint`: the same as the commands."""

from __future__ import annotations

from pathlib import Path

import sqb
from unit.folders import TOML, write

UGLY = "select  *   from orders\n"


def test_format_and_lint(tmp_path: Path) -> None:
    files = {"seeds/orders.csv": "id\n1\n", "models/a.sql": UGLY, "models/b.sql": "SELECT id FROM orders\n"}
    settings = f"{TOML}\n[lint]\nno_select_star = 'error'\n"
    root = write(tmp_path, {**files, "sqlbuild_project.toml": settings})
    project = sqb.Project(root)
    [finding] = project.lint()["findings"]
    assert (finding["rule"], finding["severity"], finding["file"]) == ("no_select_star", "error", "models/a.sql")
    assert project.lint("b") == {"models": 1, "findings": []}
    asked = project.format(check=True)
    assert (root / "models/a.sql").read_text() == UGLY
    done = project.format("a")
    assert asked == {"files": 2, "changed": ["models/a.sql"], "written": False}
    assert done == {"files": 1, "changed": ["models/a.sql"], "written": True}
    assert (root / "models/a.sql").read_text() == "SELECT * FROM orders\n"
