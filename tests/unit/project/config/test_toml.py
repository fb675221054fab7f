"""The places of keys and values in TOML texts."""

from __future__ import annotations

import pytest

from sqb.errors.project import BadToml
from sqb.project.config.located import to_plain_value
from sqb.project.config.toml import KeyPath, find_places, parse_toml

TEXT = '''\
# a comment with [brackets] and = signs
name = "shop"   # after

[targets.dev]
schema = 'dev'
[targets."my prod"]
schema = "a # b"

[a."b.c"]
d.e = 1
list = [
  "x", # why
  [1, 2],
  { k = "v", n.m = 2 },
]
text = """one
] two = "three" """
inline = { conf = { "spark.x" = "y" }, empty = {} }
[[items]]
id = 1
[[items]]
id = 2
'''


@pytest.mark.parametrize(
    ("path", "key", "value", "length"),
    [
        (("name",), "2:1", "2:8", 6),
        (("targets",), "4:2", "4:2", 7),
        (("targets", "dev"), "4:10", "4:10", 3),
        (("targets", "dev", "schema"), "5:1", "5:10", 5),
        (("targets", "my prod"), "6:10", "6:10", 9),
        (("targets", "my prod", "schema"), "7:1", "7:10", 7),
        (("a", "b.c"), "9:4", "9:4", 5),
        (("a", "b.c", "d", "e"), "10:3", "10:7", 1),
        (("a", "b.c", "list"), "11:1", "11:8", 1),
        (("a", "b.c", "list", 0), "12:3", "12:3", 3),
        (("a", "b.c", "list", 1), "13:3", "13:3", 6),
        (("a", "b.c", "list", 1, 1), "13:7", "13:7", 1),
        (("a", "b.c", "list", 2, "k"), "14:5", "14:9", 3),
        (("a", "b.c", "list", 2, "n", "m"), "14:16", "14:20", 1),
        (("a", "b.c", "text"), "16:1", "16:8", 6),
        (("a", "b.c", "inline", "conf", "spark.x"), "18:21", "18:33", 3),
        (("a", "b.c", "inline", "empty"), "18:40", "18:48", 2),
        (("items", 0, "id"), "20:1", "20:6", 1),
        (("items", 1, "id"), "22:1", "22:6", 1),
    ],
)
def test_place(path: KeyPath, key: str, value: str, length: int) -> None:
    entry = find_places(TEXT, "f")[path]
    assert (str(entry.key), str(entry.value), entry.value.length) == (f"f:{key}", f"f:{value}", length)


def test_entries_hold_what_tomllib_parsed() -> None:
    table = parse_toml("a = 1\nb.c = [true, 2024-01-01]\n", "f")
    assert {key: to_plain_value(entry) for key, entry in table.items()} == {"a": 1, "b": {"c": [True, "2024-01-01"]}}


def test_windows_line_endings_keep_places() -> None:
    assert str(parse_toml("a = 1\r\nb = 2\r\n", "f")["b"].at) == "f:2:5"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("a = ", "f:1:4"),
        ("a = 1\nb", "f:2:2"),
        ("a = 1\na = 2\n", "f:2:6"),
        ("[x\n", "f:1:3"),
        ('a = "open', "f:1:10"),
        ("a = [1,\n", "f:1:8"),
    ],
)
def test_broken(text: str, at: str) -> None:
    with pytest.raises(BadToml) as caught:
        parse_toml(text, "f")
    assert str(caught.value.at) == at
    assert "(at " not in caught.value.message
