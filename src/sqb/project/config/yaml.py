"""YAML files as entries with the place of every key and value.

Knows YAML, not what any key means. The one importer of `yaml`.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from sqb.errors.base import Errors
from sqb.errors.project import BadYaml, DuplicateKey, Unreadable
from sqb.names import At, locate_offset
from sqb.project.config.located import Entry, Section
from sqb.project.files import read_bytes

# The C parser gives the same nodes and marks several times faster, where PyYAML was built with it.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path, file: str, errors: Errors) -> Entry | None:
    """The document in a YAML file; None when it is empty or was reported as broken."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except OSError as error:
        errors.add(Unreadable(f"the file cannot be read: {error.strerror}", at=At(file)))
        return None
    except UnicodeDecodeError:
        errors.add(Unreadable("the file is not UTF-8", at=At(file), hint="save it as UTF-8"))
        return None
    return parse_yaml(text, file, errors)


def read_list(path: Path, file: str, key: str, form: str, errors: Errors) -> list[Entry]:
    """The items of a file whose only key holds a list; `form` is how one item begins, for the hint."""
    document = read_yaml(path, file, errors)
    if document is None:
        return []
    if not isinstance(document.value, dict):
        errors.add(BadYaml(f"the file must be a mapping with the key `{key}`", at=document.at))
        return []
    top = Section(document.value, f"a file of {key}", document.at, errors)
    top.refuse_unknown((key,))
    entry = top.entries.get(key)
    if entry is None or entry.value is None:
        return []
    if not isinstance(entry.value, list):
        hint = f"write each {key.removesuffix('s')} as `{form}`"
        errors.add(BadYaml(f"`{key}` must be a list", at=entry.at, hint=hint))
        return []
    return entry.value


def parse_yaml(text: str, file: str, errors: Errors) -> Entry | None:
    """The document in a YAML text; None when it is empty or was reported as broken."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        entry = None if node is None else _Converter(text, file, errors).convert(node)
        return None if entry is None or entry.value is None else entry
    except BadYaml as error:
        errors.add(error)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = At(file, mark.line + 1, mark.column + 1) if mark else At(file)
        is_tab = mark is not None and text[mark.index : mark.index + 1] == "\t"
        hint = "this is a tab: YAML is indented with spaces" if is_tab else None
        errors.add(BadYaml(f"this is not valid YAML: {error.problem or error.context}", at=at, hint=hint))
    except yaml.reader.ReaderError as error:
        at = locate_offset(text, min(int(error.position), len(text)), file)
        errors.add(BadYaml("the file holds a character that YAML does not allow", at=at))
    except yaml.YAMLError as error:
        errors.add(BadYaml(f"this is not valid YAML: {error}", at=At(file)))
    return None


class _Converter:
    def __init__(self, text: str, file: str, errors: Errors) -> None:
        self.text = text
        self.file = file
        self.errors = errors
        self.scalars = yaml.constructor.SafeConstructor()
        self.done: dict[int, Entry | None] = {}

    def convert(self, node: yaml.Node) -> Entry:
        """The entry of a node; a node that an alias names again is converted once."""
        if id(node) in self.done:
            entry = self.done[id(node)]
            if entry is None:
                raise BadYaml("this alias names something that it is part of", at=self._locate(node))
            return entry
        self.done[id(node)] = None
        entry = self._convert(node)
        self.done[id(node)] = entry
        return entry

    def _convert(self, node: yaml.Node) -> Entry:
        at = self._locate(node)
        match node:
            case yaml.MappingNode():
                return Entry(self._convert_table(node), at, at)
            case yaml.SequenceNode():
                return Entry([self.convert(item) for item in node.value], at, at)
            case _:
                return Entry(self._convert_scalar(node), at, at, str(node.value))

    def _convert_table(self, node: yaml.MappingNode) -> dict[str, Entry]:
        table: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            at = self._locate(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise BadYaml("a key must be a name", at=at)
            key = str(key_node.value)
            if key in table:
                message = f"`{key}` is given twice; it is also at {table[key].key_at}"
                self.errors.add(DuplicateKey(message, at=at, hint="keep one of the two"))
                continue
            entry = self.convert(value_node)
            table[key] = Entry(entry.value, entry.at, at, entry.text)
        return table

    def _convert_scalar(self, node: yaml.Node) -> object:
        try:
            value: object = self.scalars.construct_object(node)
        except (yaml.YAMLError, ValueError):
            # Such as 2024-13-45, which YAML takes for a date: the text is what the author meant.
            return str(node.value)
        return value

    def _locate(self, node: yaml.Node) -> At:
        start, end = node.start_mark, node.end_mark
        newline = self.text.find("\n", start.index, end.index)
        length = (newline if newline >= 0 else end.index) - start.index
        return At(self.file, start.line + 1, start.column + 1, max(1, length))
