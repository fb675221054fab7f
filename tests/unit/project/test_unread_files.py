"""Files that look as if they were read."""

from __future__ import annotations

from pathlib import Path

from sqb.project.unread_files import find_unread_files
from unit.folders import write


def test_files_are_named_with_where_they_belong(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "models/a.sql": "SELECT 1 AS x\n",
            "models/B.SQL": "SELECT 1 AS x\n",
            "models/p.py": "",
            "models/schema.yml": "",
            "models/marts/other.yaml": "",
            "models/README.md": "",
            "tests/t.sql": "",
            "tests/unit.yml": "",
            "snapshots/s.sql": "",
            "macros/m.sql": "",
            "macros/m.py": "",
            "seeds/x.csv": "a\n1\n",
            "seeds/x.yml": "",
            "seeds/Y.CSV": "a\n1\n",
            "data/z.csv": "",
        },
    )
    messages = [text.partition(": ")[0] for text in find_unread_files(tmp_path)]
    assert messages == [
        "models/B.SQL is not read",
        "models/marts/other.yaml, models/schema.yml are not read",
        "models/p.py is not read",
        "tests/t.sql is not read",
        "snapshots/s.sql is not read",
        "macros/m.sql is not read",
        "seeds/Y.CSV is not read",
        "data/z.csv is not read",
    ]


def test_a_usual_project_has_none(tmp_path: Path) -> None:
    assert find_unread_files(write(tmp_path, {"models/a.sql": "SELECT 1 AS x\n", "tests/a.yml": ""})) == []
