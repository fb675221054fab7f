"""Hold sqb's columns and mistakes against Spark's own SQL tests: what Spark accepts must pass without an error.

    python scripts/spark_queries.py                # the statements in tests/unit/sql/spark_queries.json.gz
    python scripts/spark_queries.py <spark>/sql/core/src/test/resources/sql-tests/results [--write]

Reads the recorded answers of a copy of Spark's repository (`*.sql.out`), so neither Java nor the copy's code runs; with
--write it keeps statements, schemas and names of errors for the tests.
Views and tables that the files create have the columns that sqb derives for them, or unknown ones. Prints every query
that Spark accepts and sqb refuses, every column whose type differs, and which of Spark's own refusals sqb tells too.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqb.sql.analysis.parse import parse_tree
from sqb.sql.analysis.query import QueryProblem, tokenize_statement
from sqb.sql.analysis.references import find_references
from sqb.sql.columns.evaluate import QueryColumns, evaluate_query
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.read_outline import read_outline
from sqb.sql.columns.sources import NamedColumn
from sqb.types import model as m
from sqb.types.parse import parse_type

_VIEW = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:GLOBAL\s+)?(?:LOCAL\s+)?(?:TEMPORARY\s+|TEMP\s+)?VIEW\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?([\w.`]+)\s*(\([^)]*\))?.*?\bAS\b(.*)",
    re.IGNORECASE | re.DOTALL,
)
_TABLE = re.compile(r"\s*CREATE\s+(?:TEMPORARY\s+|TEMP\s+)?(?:TABLE|VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.`]+)", re.I)
_FUNCTION = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?FUNCTION\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)", re.I
)
_ERROR = re.compile(r'"(?:errorClass|condition)" : "([^"]+)"')
# An error of Java's, without a name.
_UNNAMED = "-"
_QUERY = re.compile(r"\s*(SELECT|WITH|\(|FROM|VALUES|TABLE)\b", re.IGNORECASE)
# What Spark's tests change and sqb's sessions do not have; with it another dialect is tested.
_OTHER_RULES = ("doubleQuoted", "ansi.enabled", "caseSensitive", "legacy", "regex", "timestampType", "ByOrdinal")
# Functions that take more arguments after Spark 4.1, and files about rules that sqb's sessions do not have.
_NEWER = ("instr takes", "st_asbinary takes", "st_geomfromwkb takes")
_OTHER_FILES = ("nonansi", "old-behavior", "double-quoted", "time-window")
Tables = dict[str, Sequence[NamedColumn] | None]


CORPUS = Path(__file__).resolve().parents[1] / "tests/unit/sql/spark_queries.json.gz"
# A statement, the schema of its rows, and the error that Spark gives, "" where it gives none.
Statement = tuple[str, str, str]


def main() -> None:
    """Read all files and print what differs."""
    corpus = read_results(Path(sys.argv[1])) if len(sys.argv) > 1 else read_corpus()
    if "--write" in sys.argv:
        CORPUS.write_bytes(gzip.compress(json.dumps(corpus, ensure_ascii=False).encode(), 9, mtime=0))
    counts: Counter[str] = Counter()
    failures = [failure for name, statements in corpus.items() for failure in check_file(name, statements, counts)]
    for failure in failures:
        print(failure)
    for key, number in sorted(counts.items()):
        print(f"{number:6} {key}")
    raise SystemExit(bool(failures))


def read_results(folder: Path) -> dict[str, list[Statement]]:
    """The statements of a copy of Spark's repository, by file."""
    paths = [p for p in sorted(folder.rglob("*.sql.out")) if not any(word in str(p) for word in _OTHER_FILES)]
    return {str(p.relative_to(folder)): list(_iter_statements(p.read_text(encoding="utf-8"))) for p in paths}


def read_corpus() -> dict[str, list[Statement]]:
    """The statements that are kept for the tests, by file."""
    files = json.loads(gzip.decompress(CORPUS.read_bytes()))
    return {name: [(sql, schema, error) for sql, schema, error in statements] for name, statements in files.items()}


def list_accepted(statements: Sequence[Statement]) -> list[str]:
    """The queries of a file that Spark accepts."""
    return [sql for sql, _, error in statements if not error and _QUERY.match(sql)]


def check_file(name: str, statements: Sequence[Statement], counts: Counter[str]) -> Iterator[str]:
    """What sqb says of queries in a file that Spark accepts."""
    tables: Tables = {}
    own: dict[str, str] = {}
    for sql, schema, output in statements:
        if _has_other_rules(sql):
            return
        if found := _FUNCTION.match(sql):
            own[found[1]] = ""
        _note_relation(sql, output, tables)
        result = _evaluate(sql, tables, own) if _QUERY.match(sql) else None
        if result is None:
            counts["not parsed"] += bool(_QUERY.match(sql))
        elif output and output != _UNNAMED:
            is_told = any(p.kind != "doubled column" for p in result.problems)
            counts[f"{'told' if is_told else 'left to Spark'}: {output.partition('.')[0]}"] += 1
        elif not output:
            counts["accepted"] += 1
            counts["accepted, and all columns are known"] += not result.is_open
            for text in _list_differences(result, schema):
                yield f"{name}: {text}\n    {' '.join(sql.split())[:300]}"


def _has_other_rules(sql: str) -> bool:
    """Whether names may be variables of the session from here on, or a setting gives queries another meaning."""
    words = sql.lower()
    is_setting = words.startswith("set ") and any(word.lower() in words for word in _OTHER_RULES)
    return is_setting or words.startswith("declare")


def _list_differences(result: QueryColumns, schema: str) -> Iterator[str]:
    for problem in result.problems:
        if problem.kind != "doubled column" and not problem.message.startswith(_NEWER):
            yield f"{problem.kind}: {problem.message}"
    yield from _compare(result, schema)


def _iter_statements(text: str) -> Iterator[Statement]:
    for block in text.split("-- !query\n")[1:]:
        sql, _, rest = block.partition("\n-- !query schema\n")
        schema, _, output = rest.partition("\n-- !query output\n")
        named = _ERROR.search(output)
        failed = output.strip().startswith(("org.", "java."))
        yield sql.strip(), schema.strip(), named[1] if named else _UNNAMED if failed else ""


def _note_relation(sql: str, output: str, tables: Tables) -> None:
    if view := _VIEW.match(sql):
        result = _evaluate(view[3].strip(), tables, {})
        columns = None if result is None or result.is_open else result.columns
        if columns is not None and view[2]:
            names = [part.split()[0].strip("`") for part in view[2].strip("()").split(",")]
            pairs = zip(names, columns, strict=True) if len(names) == len(columns) else ()
            columns = tuple((name, kind) for name, (_, kind) in pairs)
        tables[view[1].lower()] = None if output else columns
        if "DEFAULT COLLATION" in sql.upper():
            tables[view[1].lower()] = None
    elif table := _TABLE.match(sql):
        tables[table[1].lower()] = None


def _evaluate(sql: str, tables: Tables, own: dict[str, str]) -> QueryColumns | None:
    try:
        tree = parse_tree(sql)
        slots = {r.start: tables.get(r.name.lower()) for r in find_references(tree, {})}
        return evaluate_query(
            read_outline(tree, sql, tokenize_statement(sql)), slots, Signatures(own, is_complete=False)
        )
    except QueryProblem:
        return None


def _compare(result: QueryColumns, schema: str) -> Iterator[str]:
    """The columns whose types or number differ from those that Spark gives."""
    kind = parse_type(schema) if result.columns and not result.is_open else None
    if not isinstance(kind, m.StructType):
        return
    if len(kind.fields) != len(result.columns):
        yield f"{len(result.columns)} columns, and Spark has {len(kind.fields)}"
        return
    for (name, found), field in zip(result.columns, kind.fields, strict=True):
        if name is not None and name.lower() != field.name.lower():
            yield f'the column "{name}" is "{field.name}" to Spark'
        if m.UNKNOWN not in m.iter_parts(found) and found != field.type:
            yield f"{field.name} is {found}, and {field.type} to Spark"


if __name__ == "__main__":
    main()
