"""What is typed counts before it is saved, and a broken text takes nothing away from the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.lsp.diagnostics import list_diagnostics
from sqb.lsp.places import Place
from sqb.lsp.snapshot import ProjectReader
from sqb.operations.inspect.validate import Opening, ValidateOptions, validate_project

TOTALS = "models/marts/totals.sql"
STAGING = "models/staging/stg_orders.sql"


def test_a_project_without_mistakes_has_none(reader: ProjectReader) -> None:
    assert reader.read({}).errors == ()


def test_unsaved_texts_have_the_mistakes_that_validate_tells_once_they_are_saved(
    reader: ProjectReader, root: Path
) -> None:
    texts = {TOTALS: "SELECT custmer FROM stg_orders\n", STAGING: "SELECT id AS order_id FROM ordrs\n"}
    typed = [str(e) for e in reader.read(texts).errors]
    for path, text in texts.items():
        (root / path).write_text(text)
    saved = validate_project(Opening(root), ValidateOptions())
    assert [str(e) for e in saved.errors] == typed
    assert (
        'error[SQB-R002]: models/staging/stg_orders.sql:1:28: no model, seed, source or table is called "ordrs"'
        in typed
    )
    assert 'error[SQB-S006]: models/marts/totals.sql:1:8: unknown column "custmer"' in typed


def test_nothing_that_is_typed_is_written(reader: ProjectReader, root: Path) -> None:
    reader.read({TOTALS: "SELECT 1 AS a, 2 AS a\n"})
    assert not list(root.glob(".sqb/cache/*.json"))
    assert validate_project(Opening(root), ValidateOptions()).errors == ()


def test_what_is_mended_is_forgotten(reader: ProjectReader) -> None:
    assert len(reader.read({TOTALS: "SELECT nothing FROM stg_orders"}).errors) == 1
    assert reader.read({TOTALS: "SELECT customer FROM stg_orders"}).errors == ()


def test_a_broken_text_is_told_and_the_project_of_before_serves(reader: ProjectReader) -> None:
    reader.read({})
    snapshot = reader.read({TOTALS: "SELECT customer, FROM stg_orders"})
    assert [e.code for e in snapshot.errors] == ["SQB-S004"]
    assert snapshot.get_columns("staging.stg_orders").names == ("order_id", "customer", "amount", "placed_on")
    assert not snapshot.is_compiled_from(TOTALS) and snapshot.is_compiled_from(STAGING)


def test_mistakes_in_other_files_are_still_shown_beside_a_broken_one(reader: ProjectReader) -> None:
    wrong = {STAGING: "SELECT id AS order_id, nix FROM orders"}
    messages = {str(e) for e in reader.read(wrong).errors if e.at and e.at.file == STAGING}
    both = reader.read({**wrong, TOTALS: "SELECT FROM"})
    assert messages <= {str(e) for e in both.errors}


def test_a_project_that_is_broken_when_it_is_opened_still_has_the_columns_of_the_rest(
    reader: ProjectReader, root: Path
) -> None:
    (root / TOTALS).write_text("SELECT customer FROM (stg_orders")
    snapshot = reader.read({})
    assert [e.code for e in snapshot.errors] == ["SQB-S004"]
    assert snapshot.get_columns("staging.stg_orders").names[:2] == ("order_id", "customer")
    assert not snapshot.is_compiled_from(TOTALS)


def test_a_new_file_that_is_not_saved_is_part_of_the_project(reader: ProjectReader) -> None:
    snapshot = reader.read({"models/marts/new.sql": "SELECT total FROM totals"})
    assert snapshot.errors == () and snapshot.get_columns("marts.new").names == ("total",)


@pytest.mark.parametrize("path", ["sources/raw.yml", "sqlbuild_project.toml"])
def test_settings_and_yaml_count_as_they_are_typed(reader: ProjectReader, path: str) -> None:
    [error] = reader.read({path: "nonsense = [\n"}).errors
    assert error.at is not None and error.at.file == path


def test_diagnostics_have_the_span_of_the_mistake(reader: ProjectReader) -> None:
    text = "SELECT customer,\n  custmer2 FROM stg_orders"
    [diagnostic] = list_diagnostics(reader.read({TOTALS: text}))[TOTALS]
    assert diagnostic.place == Place(TOTALS, text.index("custmer2"), text.index(" FROM"))
    assert diagnostic.code == "SQB-S006" and diagnostic.message.endswith("did you mean 'customer'?")


def test_typing_in_one_model_parses_no_other(reader: ProjectReader, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqb.sql.analysis import parse

    reader.read({})
    parsed: list[str] = []
    whole = parse.read_query_with_outline
    monkeypatch.setattr(
        parse, "read_query_with_outline", lambda text, forced: parsed.append(text) or whole(text, forced)
    )
    reader.read({TOTALS: "SELECT customer FROM stg_orders"})
    reader.read({TOTALS: "SELECT customer FROM stg_orders"})
    assert parsed == ["SELECT customer FROM stg_orders"]


def test_a_broken_text_hides_no_mistake_of_other_files(root: Path, reader: ProjectReader) -> None:
    broken = {"models/staging/stg_orders.sql": "MODEL (kind merge, unique_key order_id);\nSELECT id, FROM orders"}
    wrong = {
        "models/marts/other.sql": "SELECT custmer FROM orders",
        "models/marts/reader.sql": "SELECT x FROM stg_orders",
    }

    def read(texts: dict[str, str]) -> list[tuple[str, str]]:
        return [(e.code, e.at.file) for e in reader.read(texts).errors if e.at is not None]

    expected = [("SQB-S006", "models/marts/other.sql"), ("SQB-S004", "models/staging/stg_orders.sql")]
    # Nothing was ever compiled: columns of the broken model are not known, so nobody is told that one is missing.
    assert read(broken | wrong) == expected
    # It was, and what is typed elsewhere meanwhile is looked at too.
    assert read({}) == []
    assert read(broken | wrong) == expected
