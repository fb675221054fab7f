"""Write the pages of reference that the code has the contents of: commands, settings, keys, checks, errors, the API.

python scripts/make_reference.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from make_schemas import BUILDERS

import sqb as sqb_package
from sqb.checks.catalogue import CATALOGUE
from sqb.cli.examples import EXAMPLES
from sqb.cli.main import sqb
from sqb.errors import FAMILIES
from sqb.errors.base import SqbError
from sqb.lsp.key_texts import KEY_TEXTS, KIND_TEXTS
from sqb.project.models.keys import KEYS, Key

FOLDER = Path(__file__).resolve().parents[1] / "docs"
NOTE = "<!-- scripts/make_reference.py writes this page. -->\n\n"
Schema = dict[str, Any]
# What the titles of the schemas of YAML files say, in the order of the page.
FILES = ("sqlbuild_project", "sources", "exposures", "tests", "seeds", "selectors")


def main() -> None:
    """Write all pages."""
    for name, make in PAGES.items():
        (FOLDER / f"{name}.md").write_text(NOTE + make(), encoding="utf-8")


def _format_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(titles)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(map(_escape, line))} |\n" for line in lines)


def _escape(cell: str) -> str:
    """A cell that renderers show as it is: a bar ends no cell, and <text> outside of code is no tag."""
    parts = cell.replace("|", r"\|").split("`")
    return "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _first_sentence(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())


# --- commands -------------------------------------------------------------------------------------------------------


def make_cli() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    parts = [
        "# Commands and options\n\n",
        "For those who look for an option. [The command line](cli.md) explains the commands, with examples,\n",
        "and has the [documents that `--json` prints](cli.md#json).\n",
    ]
    with click.Context(sqb, info_name="sqb") as context:
        parts += [_describe_command(command, name) for name, command in _walk_commands(sqb, context)]
    return "".join(parts)


def _walk_commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        path = f"{context.command_path} {name}"
        yield path, command
        if isinstance(command, click.Group):
            yield from _walk_commands(command, click.Context(command, info_name=name, parent=context))


def _describe_command(command: click.Command, path: str) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    text = f"\n## {path}\n\n```\n{usage}\n```\n\n{_format_help(command.help)}\n"
    if calls := EXAMPLES.get(path.removeprefix("sqb ")):
        text += "\n```sh\n" + "\n".join(calls) + "\n```\n"
    records = [(p, p.get_help_record(context)) for p in command.params if isinstance(p, click.Option)]
    rows = [(f"`{record[0]}`", record[1]) for _, record in records if record is not None]
    return f"{text}\n{_format_table(('option', ''), rows)}" if rows else text


def _format_help(text: str | None) -> str:
    # `\b` on a line of its own keeps click from filling the paragraph below.
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        "```\n" + part.removeprefix("\b\n") + "\n```" if part.startswith("\b") else " ".join(part.split())
        for part in paragraphs
    )


# --- settings -------------------------------------------------------------------------------------------------------


def make_settings() -> str:
    """Every key of the TOML and YAML files."""
    parts = [
        "# Settings and files\n\n",
        "For those who look for a key. [Configuration](configuration.md) explains the settings, with examples.\n",
        "Editors that know JSON Schema complete these keys: see [editors](editors.md).\n",
    ]
    for file in FILES:
        schema = BUILDERS[file]()
        title = "sqlbuild_project.toml" if file == "sqlbuild_project" else schema["title"]
        rows = list(_walk_keys(schema, ""))
        parts.append(f"\n## {title}\n\n{_format_table(('key', 'value', ''), rows)}")
    return "".join(parts)


def _walk_keys(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """The keys of a table and of the tables in it, each with the values that it takes and its sentence."""
    for name, value in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield f"`{here}`", _describe_value(value), value.get("description", "")
        yield from _walk_inner(value, here)


def _walk_inner(value: Schema, here: str) -> Iterator[tuple[str, str, str]]:
    if "items" in value:
        yield from _walk_keys(value["items"], f"{here}[]")
        return
    yield from _walk_keys(value, here)
    inner = value.get("additionalProperties")
    # The rules of lint are many and alike: their description says what a rule takes.
    if isinstance(inner, dict) and "properties" in inner:
        yield from _walk_keys(inner, f"{here}.NAME")


def _describe_value(value: Schema) -> str:
    if "enum" in value:
        return _format_names(map(str, value["enum"]))
    if "$ref" in value:
        return "[keys of models](reference-keys.md)" if value["$ref"].endswith("settings") else "a table"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_describe_value(item) for item in value["anyOf"]))
    if str(value.get("pattern", "")).startswith("^ *([0-9]"):
        return "a duration, such as `90m` or `7d`"
    words = {"object": "a table", "array": "a list", "string": "text", "integer": "a whole number", "null": "nothing"}
    words |= {"number": "a number", "boolean": "`true` or `false`"}
    types = value.get("type", [])
    text = " or ".join(words[name] for name in ([types] if isinstance(types, str) else types))
    return f"{text}; default `{value['default']}`" if "default" in value else text


# --- keys of models -------------------------------------------------------------------------------------------------


def make_keys() -> str:
    """Every key of a model's header, and the kinds."""
    rows = [
        (f"`{key.name}`", _format_names(key.synonyms), _describe_key(key), KEY_TEXTS[key.name], _describe_scope(key))
        for key in KEYS.values()
    ]
    return (
        "# Keys of models\n\n"
        "For those who look for a key of a header. [Models](models.md) explains them, with examples.\n\n"
        f"{_format_table(('key', 'also', 'takes', '', 'for'), rows)}\n"
        "## Kinds\n\n"
        f"{_format_table(('kind', ''), ((f'`{name}`', text) for name, text in KIND_TEXTS.items()))}\n"
        "## Identity\n\n"
        "A model runs again when one of these keys changes, since they are part of its identity: "
        f"{_format_names(key.name for key in KEYS.values() if key.identity)}.\n"
    )


def _describe_key(key: Key) -> str:
    if key.choices:
        return _format_names(key.choices)
    return VALUES.get(key.name) or SHAPES[key.shape.name]


def _describe_scope(key: Key) -> str:
    return _format_names(key.kinds) or "all kinds"


SHAPES = {
    "WORD": "a name",
    "TEXT": "text",
    "FLAG": "`true` or `false`",
    "NAMES": "names",
    "EXPRESSIONS": "SQL expressions",
    "CALLS": "checks",
    "STATEMENTS": "SQL statements",
    "COLUMNS": "columns, with or without descriptions",
    "CONTRACT": "columns with types",
    "OPTIONS": "names and texts",
    "MAPPING": "a table of values",
}
# What is one word in a header, and no name.
VALUES = {
    "cursor_start": "a value of the cursor",
    "cursor_grain": "a duration, or a whole number",
    "lookback": "a duration, or a whole number",
    "replay_on_change": "`forward`, `bounded-14d` and the like, `full`",
    "run_despite_unchanged": "`always`, or a duration",
}

# --- checks ---------------------------------------------------------------------------------------------------------


def make_checks() -> str:
    """Every built-in check: how it is written, what passes, and under which keys."""
    rows = [
        (
            f"`{entry.usage}`",
            _format_names(entry.synonyms),
            _first_sentence(entry.read.__doc__),
            _format_names(entry.roles),
        )
        for entry in CATALOGUE.values()
    ]
    return (
        "# Built-in checks\n\n"
        "For those who look for a check. [Checks](checks.md) explains when they run and what a failure does.\n\n"
        f"{_format_table(('check', 'also', 'passes if', 'under'), rows)}"
    )


# --- errors ---------------------------------------------------------------------------------------------------------


def make_errors() -> str:
    """Every error by its code, with the name that the API has for it."""
    rows = []
    for error in sorted(_list_errors(), key=lambda error: error.code):
        code = f"[{error.code}](errors/{error.code}.md)"
        rows.append((code, f"`{error.__name__}`", _first_sentence(error.__doc__)))
    return (
        "# Errors by code\n\n"
        "For those who catch errors in Python, or have a code. Each code has a page with an example and the way out;\n"
        "the [error catalogue](errors/index.md) has them by topic, and `sqb explain CODE` prints one.\n\n"
        f"{_format_table(('code', 'class', ''), rows)}"
    )


def _list_errors() -> Iterator[type[SqbError]]:
    """The errors that have a page: others are raised by no code of their own."""
    for family in FAMILIES:
        module = import_module(f"sqb.errors.{family}")
        for item in vars(module).values():
            is_own = isinstance(item, type) and issubclass(item, SqbError) and item.__module__ == module.__name__
            if is_own and (FOLDER / "errors" / f"{item.code}.md").is_file():
                yield item


# --- the Python API -------------------------------------------------------------------------------------------------


def make_api() -> str:
    """Every name of the package, with the methods of its classes and what they take."""
    public = {name: getattr(sqb_package, name) for name in sqb_package.__all__}
    classes = {name: item for name, item in public.items() if inspect.isclass(item)}
    others = {name: item for name, item in public.items() if name not in classes}
    for name in ("plan", "build"):
        # The package has stand-ins that load these when they are called.
        others[name] = getattr(import_module("sqb.api"), name)
    rows = [(_format_call(name, item), _first_sentence(item.__doc__)) for name, item in sorted(others.items())]
    parts = [
        "# Names of the Python API\n\n",
        "For those who look for a name. [The Python API](api.md) and [Python nodes](python.md) explain them,\n",
        "with examples.\n",
        f"\n## sqb\n\n{_format_table(('name', ''), rows)}",
    ]
    parts += [_describe_class(name, item) for name, item in sorted(classes.items())]
    return "".join(parts)


def _describe_class(name: str, item: type) -> str:
    """A class with its values, and with what it can do and compute."""
    values = [key for key in getattr(item, "__dataclass_fields__", ()) if not key.startswith("_")]
    members = [(key, value) for key, value in vars(item).items() if not key.startswith("_")]
    rows = [
        (_format_call(key, value), _first_sentence(value.__doc__))
        for key, value in members
        if inspect.isfunction(value) or isinstance(value, property)
    ]
    parts = [f"\n## sqb.{name}\n\n{_first_sentence(item.__doc__)}\n"]
    parts += [f"\nIts values are {_format_names(values)}.\n"] if values else []
    parts += [f"\n{_format_table(('name', ''), rows)}"] if rows else []
    return "".join(parts)


def _format_call(name: str, item: Any) -> str:
    if not inspect.isfunction(item):
        return f"`{name}`"
    return f"`{name}({', '.join(_list_parameters(item))})`"


def _list_parameters(function: Any) -> Iterator[str]:
    """The names of parameters; options of a TypedDict one by one, in the order of the class."""
    keywords_alone = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keywords_alone:
            keywords_alone = True
            yield "*"
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if options is not None:
            if not keywords_alone:
                yield "*"
            yield from function.__globals__[options[1]].__annotations__
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            keywords_alone = True
            yield f"*{parameter.name}"
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            yield f"**{parameter.name}"
        elif parameter.name != "self":
            yield parameter.name


PAGES: dict[str, Callable[[], str]] = {
    "reference-cli": make_cli,
    "reference-settings": make_settings,
    "reference-keys": make_keys,
    "reference-checks": make_checks,
    "reference-errors": make_errors,
    "reference-api": make_api,
}

if __name__ == "__main__":
    main()
