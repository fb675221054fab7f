"""The files behind checks: custom audits, golden files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sqb.checks.catalogue import WORDS
from sqb.checks.custom_audits import read_custom_audits, refuse_wrong_sql
from sqb.checks.parse import CheckReader
from sqb.errors.base import Errors, SqbError
from sqb.errors.project import GoldenMissing
from sqb.names import At, find_nearest
from sqb.project import files
from sqb.project.values import Golden
from sqb.sql.analysis.query import Query
from sqb.sql.text.expand import ExpansionContext

_FOLDER = "golden/"


def build_checks_reader(
    root: Path,
    paths: Iterable[str],
    words: ExpansionContext,
    query: Callable[[str, Mapping[int, str]], Query],
    columns_of: Callable[[str], tuple[str, ...]],
    errors: Errors,
) -> CheckReader:
    """What reads the checks of the project's models; audits whose files are wrong are reported at once."""
    paths = list(paths)
    texts = {
        path: text
        for path in paths
        if files.is_in_folder(path, "audits") and (text := files.read_text(root, path, errors))
    }
    audits = read_custom_audits(texts, WORDS, errors)
    refuse_wrong_sql(audits, words, query, errors)
    golden = _GoldenFiles(root, tuple(p for p in paths if p.startswith(_FOLDER) and p.endswith(".csv")), errors)
    return CheckReader(audits, words, query, columns_of, golden.find)


class _GoldenFiles:
    """Golden files, each read and reported once, however many checks name it."""

    def __init__(self, root: Path, known: tuple[str, ...], errors: Errors) -> None:
        self.root, self.known, self.errors = root, known, errors
        self.read: dict[str, Golden | None] = {}

    def find(self, file: str, at: At) -> Golden | None:
        """The file; None when it was reported as wrong."""
        if file not in self.known:
            close = find_nearest(file, self.known)
            hint = (
                f"did you mean {close[0]}?" if close else "golden files are CSV files in golden/, by their whole path"
            )
            self.errors.add(GoldenMissing(f"there is no golden file {file}", at=at, hint=hint))
            return None
        if file not in self.read:
            from sqb.project.seeds import read_golden  # loads YAML, which few edited models need

            self.read[file] = None
            try:
                self.read[file] = read_golden(self.root, file)
            except SqbError as error:
                self.errors.add(error)
        return self.read[file]
