"""Which versions scripts/compat.py tests together, and what it installs."""

from __future__ import annotations

from pathlib import Path

from compat import Combination, choose_combinations, find_javas, replace_spark


def test_each_version_is_in_a_combination() -> None:
    some = choose_combinations(("4.0", "4.1"), ("3.11", "3.13"), ("17", "21"), every=False)
    assert list(map(str, some)) == ["4.0/3.11/17", "4.1/3.11/17", "4.1/3.11/21", "4.1/3.13/17"]
    assert len(choose_combinations(("4.0", "4.1"), ("3.11", "3.13"), ("17", "21"), every=True)) == 8
    assert choose_combinations(("4.1",), ("3.11",), (), every=False) == []
    assert choose_combinations(("4.1",), ("3.12",), ("21",), every=False) == [Combination("4.1", "3.12", "21")]


def test_javas_are_told_by_their_release(tmp_path: Path) -> None:
    for name, version in (("a", "17.0.19"), ("b", "17.0.2"), ("c", "21"), ("old", "1.8.0_392")):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "java").touch()
        (tmp_path / name / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    (tmp_path / "empty").mkdir()
    homes = sorted(tmp_path.iterdir())
    assert find_javas(homes) == {"17": tmp_path / "a", "21": tmp_path / "c", "8": tmp_path / "old"}


def test_another_spark_takes_the_place_of_the_locked_one() -> None:
    lock = "click==8.5.1 \\\n    --hash=sha256:00\npsycopg[binary]==3.3.9 \\\n    --hash=sha256:01\n" + (
        "py4j==0.10.9.9 \\\n    --hash=sha256:02\n    # via pyspark\npyspark==4.1.4 \\\n    --hash=sha256:03\n"
        'colorama==0.4.6 ; sys_platform == "win32" \\\n    --hash=sha256:04\n'
    )
    assert replace_spark(lock, "4.0").splitlines() == [
        "click==8.5.1",
        "psycopg[binary]==3.3.9",
        'colorama==0.4.6 ; sys_platform == "win32"',
        "pyspark==4.0.*",
    ]
