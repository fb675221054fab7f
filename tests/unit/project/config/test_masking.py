"""Excerpts of settings in errors hold no secret, however wrong the line is that they stand in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqb.console.errors import encode_errors, format_error
from sqb.console.style import Paint
from sqb.errors.base import Errors, SqbError
from sqb.project.config.config import load_config
from sqb.project.config.masking import mask_line
from sqb.project.config.yaml import parse_yaml

SECRET = "hunter2"
# Lines of [connections.a.catalog.options] and of the tables around it, each wrong in a way of its own.
SHAPES = {
    "unclosed double": 'password = "hunter2',
    "unclosed single": "password = 'hunter2",
    "mixed quotes": "password = \"hunter2'",
    "no quotes": "password = hunter2",
    "a quote inside": 'password = "hun"ter2hunter2"',
    "escaped quote": 'password = "x\\"hunter2" oops',
    "text behind": 'password = "x" hunter2',
    "a comma behind": 'password = "x", hunter2"',
    "no equals sign": 'password "hunter2"',
    "a colon": 'password: "hunter2"',
    "a colon and no quotes": "password: hunter2",
    "two equals signs": 'password == "hunter2"',
    "an arrow": 'password => "hunter2"',
    "no value, then one": 'password =\n"hunter2"',
    "wrong escape": 'password = "\\hunter2"',
    "inline table without an end": 'options2 = { password = "hunter2", b = 1',
    "inline table without a quote": 'options2 = { password = "hunter2, b = 1 }',
    "inline table with a newline": 'options2 = { a = 1,\n password = "hunter2" }',
    "inline table with two commas": 'options2 = { password = "hunter2",, b = 1 }',
    "array without an end": 'tokens = ["hunter2"',
    "array of several lines": 'tokens = [\n  "a",\n  hunter2\n]',
    "array of tables": 'tokens = [\n  { name = "a" },\n  { name = hunter2 },\n]',
    "multi-line string without an end": 'password = """hunter2',
    "multi-line string with a wrong escape": 'password = """\nab\n\\hunter2\n"""',
    "multi-line string like a setting": 'password = """\nab\nx = \\hunter2\n"""',
    "multi-line literal without an end": "password = '''\nhunter2",
    "dotted key": "spark.hadoop.secret.key = hunter2",
    "dotted with spaces": 's3 . "secret-access-key" = hunter2',
    "quoted key": '"s3.secret-access-key" = hunter2',
    "key without its quote": '"s3.secret-access-key = "hunter2"',
    "duplicated key": 'password = "@@ENV:A"\npassword = "hunter2"',
    "duplicated and dotted": 'token.a = "@@ENV:A"\ntoken.a = "hunter2"',
    "key of a table twice": 'token = "@@ENV:A"\ntoken.b = "hunter2"',
    "in a table of that name": "[connections.a.catalog.options.secrets]\nvalue = hunter2",
    "in a table of that name, unclosed": '[connections.a.catalog.options.secrets]\nvalue = "hunter2',
    "a header without an end": '[connections.b.password = "hunter2"',
    "a header with a value": '[connections.b] password = "hunter2"',
    "an address without a quote": 'uri = "postgresql://anna:hunter2@db/lake',
    "an address without quotes": "uri = postgresql://anna:hunter2@db/lake",
    "an address with a quote in it": 'uri = "postgresql://anna:a"hunter2@db/lake"',
    "an address without its host": 'uri = "postgresql://anna:hunter2',
    "an address with a parameter": 'uri = "postgresql://db/lake?user=a&password=hunter2',
    "an address with a space": 'uri = "postgresql://anna:ab hunter2@db/lake',
    "options of Java": 'conf = "-Xss4m -Djavax.net.ssl.trustStorePassword=hunter2',
    "a key in capitals": "PASSWORD = hunter2",
    "a key with a wrong letter": 'pass word = "hunter2"',
    "a key that is no key": 'pässword = "x"\npassword = hunter2',
    "a number where text is": "password = [hunter2]",
    "in a comment": 'password = "x" oops # hunter2',
    "exported": "export PASSWORD=hunter2",
    "an access key": "s3.access-key-id = AKIA\ns3.secret-access-key = hunter2",
}


def shown(error: SqbError, root: Path) -> str:
    return "\n".join(format_error(error, root, Paint(None))) + json.dumps(encode_errors(error))


def read(root: Path, committed: str, own: str | None = None) -> str:
    """What people see of the errors in the settings of a project."""
    (root / "sqlbuild_project.toml").write_text(committed)
    if own is not None:
        (root / "sqlbuild_local.toml").write_text(own)
    errors = Errors()
    load_config(root, errors)
    with pytest.raises(SqbError) as raised:
        errors.raise_any()
    return shown(raised.value, root)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_line_of_the_project_shows_no_secret(shape: str, tmp_path: Path) -> None:
    messages = read(tmp_path, f'name = "shop"\n[connections.a.catalog.options]\n{SHAPES[shape]}\n')
    assert SECRET not in messages and "hunter" not in messages, messages


@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_line_of_ones_own_settings_shows_no_secret(shape: str, tmp_path: Path) -> None:
    messages = read(tmp_path, 'name = "shop"\n', f"[connections.a.catalog.options]\n{SHAPES[shape]}\n")
    assert "hunter" not in messages, messages


@pytest.mark.parametrize(
    "line",
    [
        "whatever = hunter2",
        'region = "hunter2',
        "hunter2",
        '"hunter2"',
        'a = { b = "hunter2", c }',
        "a = 1 # hunter2, \x01",
        "warehouse = 's3://hunter2",
        'schema = ["hunter2"]\n[targets.dev]\nschema = ["hunter2"]',
    ],
)
def test_of_ones_own_settings_no_value_is_shown(line: str, tmp_path: Path) -> None:
    messages = read(tmp_path, 'name = "shop"\n', f"[connections.a.catalog]\n{line}\n")
    assert SECRET not in messages, messages


@pytest.mark.parametrize(
    "text",
    [
        'password = ["hunter2"]',
        "password = 'hunter2'",
        'password = "a\\"hunter2"',
        'password = """hunter2"""',
        'password = """\nhunter2"""',
        "token = {value = 'hunter2', list = ['hunter2']}",
        "uri = 'oracle://anna:a\"hunter2@db/lake'",
        "uri = 'postgresql://anna:hunter2@db:x/lake'",
        "x.password = ['hunter2']",
    ],
)
def test_a_wrong_value_that_is_well_formed_is_not_repeated(text: str, tmp_path: Path) -> None:
    assert SECRET not in read(tmp_path, f'name = "shop"\n[connections.a.catalog]\n{text}\n')
    assert SECRET not in read(tmp_path, f'name = "shop"\n[connections.a.catalog.options]\n{text}\nb = []\n')


@pytest.mark.parametrize(
    "text",
    [
        "password: [hunter2",
        "password: 'hunter2",
        'password: "hunter2\nb: 1',
        "password: hunter2: x",
        "password hunter2\nb: 1",
        "password: |\n  hunter2\n b",
        "password: >-\n   hunter2\n  hunter2: [",
        "passwords:\n- a\n- [hunter2\n",
        "passwords:\n  - a\n  - @hunter2\n",
        "a: {password: hunter2, b: [}",
        "a: {b: 1, password: 'hunter2, c: 1}",
        "password: %hunter2",
        "password:\t@hunter2",
        "credentials:\n  id: '@hunter2\n",
        "password: a\npassword: hunter2",
        "password: 'a\nhunter2' b",
        "uri: 'postgresql://anna:hunter2@h/d",
        "password: *hunter2",
        "password: !!hunter2 x",
    ],
)
def test_a_wrong_line_of_yaml_shows_no_secret(text: str, tmp_path: Path) -> None:
    (tmp_path / "sources.yml").write_text(text)
    errors = Errors()
    parse_yaml(text, "sources.yml", errors)
    for error in errors.found:
        assert SECRET not in shown(error, tmp_path), shown(error, tmp_path)


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ('password = "hunter2', 'password = "*******'),
        (
            'catalog = { type = "jdbc", password = "hunter2", b = 1 }',
            'catalog = { type = "jdbc", password = "*******", b = 1 }',
        ),
        ('password = "@@ENV:PASSWORD', 'password = "@@ENV:PASSWORD'),
        ('schema = "tokens"', 'schema = "tokens"'),
        ('schema = "token', 'schema = "token'),
        ("[targets.token]", "[targets.token]"),
        ("warehouse = s3://bucket/path", "warehouse = s3://bucket/path"),
        ("remote = sc://host:15002", "remote = sc://host:15002"),
    ],
)
def test_what_is_no_secret_stays_readable(line: str, messages: str) -> None:
    assert mask_line(["[a]", line], 2, "sqlbuild_project.toml") == messages


def test_a_column_named_like_a_secret_is_still_a_column() -> None:
    lines = ["sources:", "  - name: token", "    type: strng", "    columns: [a"]
    assert mask_line(lines, 3, "sources/a.yml") == lines[2]
    assert mask_line(lines, 4, "sources/a.yml") == lines[3]
