"""Names of tables and columns in the YAML files: unit tests, exposures, sources and what stands beside seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqb.compile.model import Project
from sqb.errors.base import Errors, SqbError
from sqb.lsp.model_names import find_named
from sqb.lsp.places import Place, find_place
from sqb.lsp.snapshot import Snapshot
from sqb.names import At
from sqb.project.config.located import Entry
from sqb.project.config.yaml import parse_yaml

_FOLDERS = ("tests", "exposures", "sources", "seeds")
_SUFFIXES = (".yml", ".yaml")
_CALL = re.compile(r"(?:ref|source)\(\s*(?:['\"]([^'\"]+)['\"]\s*,\s*)?['\"]([^'\"]+)['\"]\s*\)")


@dataclass(frozen=True, slots=True)
class YamlName:
    """A name of a node or source, or of a column of one, and where it is written."""

    table: str
    column: str | None
    place: Place


def iter_yaml_names(snapshot: Snapshot) -> Iterator[YamlName]:
    """All names of tables and columns in the YAML files of a project."""
    for path in list_yaml_files(snapshot):
        yield from iter_names_in(snapshot, path)


def list_yaml_files(snapshot: Snapshot) -> list[str]:
    """The YAML files that can name tables and columns, saved or not."""
    saved = (p for folder in _FOLDERS for p in (snapshot.root / folder).rglob("*") if p.suffix in _SUFFIXES)
    paths = {path.relative_to(snapshot.root).as_posix() for path in saved}
    return sorted(paths | {p for p in snapshot.texts if p.endswith(_SUFFIXES) and p.partition("/")[0] in _FOLDERS})


def iter_names_in(snapshot: Snapshot, path: str) -> Iterator[YamlName]:
    """The names of tables and columns in one YAML file; none where it cannot be read."""
    if snapshot.workspace is None:
        return
    text = snapshot.read_text(path)
    try:
        document = parse_yaml(text, path, Errors())
    except SqbError:
        return
    if document is None or not isinstance(document.value, dict):
        return
    reader = _Reader(snapshot.workspace.project, text)
    match path.partition("/")[0]:
        case "tests":
            for test in _iter_tables(document.value.get("tests")):
                yield from reader.iter_test(test)
        case "exposures":
            for exposure in _iter_tables(document.value.get("exposures")):
                yield from reader.iter_exposure(exposure)
        case "sources":
            for source in _iter_tables(document.value.get("sources")):
                yield from reader.iter_source(source)
        case _:
            node = snapshot.find_node(path)
            if node is not None:
                yield from reader.iter_columns(node.name, document.value.get("columns"))


def _iter_tables(entry: Entry | None) -> Iterator[dict[str, Entry]]:
    for item in entry.value if entry is not None and isinstance(entry.value, list) else ():
        if isinstance(item.value, dict):
            yield item.value


@dataclass(frozen=True, slots=True)
class _Reader:
    project: Project
    text: str

    def iter_test(self, test: dict[str, Entry]) -> Iterator[YamlName]:
        """A unit test names its model, what the model reads, and columns of these."""
        model = test.get("model")
        name = find_named(self.project, str(model.value)) if model is not None else None
        if name is None or model is None:
            return
        yield self._build(name, None, model.at)
        if "expect" in test:
            yield from self._iter_rows(name, test["expect"])
        given = test.get("given")
        for key, rows in given.value.items() if given is not None and isinstance(given.value, dict) else ():
            table = self._find_read(name, key)
            if table is not None:
                yield self._build(table, None, rows.key_at)
                yield from self._iter_rows(table, rows)

    def iter_exposure(self, exposure: dict[str, Entry]) -> Iterator[YamlName]:
        """An exposure names what it reads, and perhaps columns."""
        entry = exposure.get("depends_on")
        for item in entry.value if entry is not None and isinstance(entry.value, list) else ():
            match item.value:
                case str() as written if name := self._find_written(written):
                    yield self._build(name, None, item.at)
                case dict() as table if len(table) == 1:
                    ((written, columns),) = table.items()
                    name = self._find_written(written)
                    if name is None:
                        continue
                    yield self._build(name, None, columns.key_at)
                    for column in columns.value if isinstance(columns.value, list) else [columns]:
                        yield self._build(name, str(column.value), column.at)

    def iter_source(self, source: dict[str, Entry]) -> Iterator[YamlName]:
        """A source names itself, and the column that tells how fresh it is."""
        written, freshness = source.get("name"), source.get("freshness")
        name = find_named(self.project, str(written.value)) if written is not None else None
        if name is None or written is None:
            return
        yield self._build(name, None, written.at)
        if freshness is not None and isinstance(freshness.value, dict) and "column" in freshness.value:
            column = freshness.value["column"]
            yield self._build(name, str(column.value), column.at)

    def iter_columns(self, table: str, entry: Entry | None) -> Iterator[YamlName]:
        """Columns by name, in a mapping or in a list of names or of mappings with a `name`."""
        match entry.value if entry is not None else None:
            case dict() as by_name:
                for name, item in by_name.items():
                    yield self._build(table, name, item.key_at)
            case list() as items:
                for item in items:
                    named = item.value.get("name") if isinstance(item.value, dict) else item
                    if named is not None:
                        yield self._build(table, named.text, named.at)

    def _iter_rows(self, table: str, entry: Entry) -> Iterator[YamlName]:
        rows = entry.value
        if isinstance(rows, dict):
            yield from self.iter_columns(table, rows.get("columns"))
            if "csv" in rows:
                yield from self._iter_csv(table, rows["csv"])
            rows = rows["rows"].value if "rows" in rows else ()
        for row in rows if isinstance(rows, list) else ():
            for name, cell in row.value.items() if isinstance(row.value, dict) else ():
                yield self._build(table, name, cell.key_at)

    def _iter_csv(self, table: str, entry: Entry) -> Iterator[YamlName]:
        """The header of rows that are written as CSV."""
        start = find_place(self.text, entry.at).start
        header = entry.text.strip().partition("\n")[0]
        result = self.text.find(header, start)
        for match in re.finditer(r"[^,]+", header) if result >= 0 else ():
            name = match[0].strip()
            begin = result + match.start() + match[0].index(name)
            yield YamlName(table, name, Place(entry.at.file, begin, begin + len(name)))

    def _find_read(self, model: str, written: str) -> str | None:
        """What the model reads under a name."""
        node = self.project.nodes.get(model)
        folded = written.replace("`", "").lower()
        reads = {read.lower(): read for read in (node.reads if node is not None else ())}
        named = [reads[folded]] if folded in reads else [r for k, r in reads.items() if k.rpartition(".")[2] == folded]
        return named[0] if len(named) == 1 else find_named(self.project, written)

    def _find_written(self, written: str) -> str | None:
        call = _CALL.fullmatch(written.strip())
        if call is None:
            return find_named(self.project, written.strip())
        whole = f"{call[1]}.{call[2]}" if call[1] and written.strip().startswith("source") else call[2]
        return find_named(self.project, whole)

    def _build(self, table: str, column: str | None, at: At) -> YamlName:
        return YamlName(table, column, find_place(self.text, at))
