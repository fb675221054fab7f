"""Private parts of pyiceberg that sqb uses are where it looks for them: what a new version moves is named here."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import GreaterThan
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
from pyiceberg.io import pyarrow as arrow_io
from pyiceberg.manifest import DataFile, FileFormat, ManifestFile, _inherit_from_manifest
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from sqb.lake import private_api
from sqb.lake.catalog.pyiceberg_sql import TidyCatalog
from sqb.lake.catalog.rest.pyiceberg import PatientCatalog


def list_parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize(("function", "parameters", "user"), [
    (Catalog._load_file_io, ["properties", "location"], private_api.open_file_io),
    (RestCatalog._load_file_io, ["properties", "location"], private_api.open_file_io),
    (Catalog._delete_old_metadata, ["io", "base", "metadata"], private_api.delete_old_metadata),
    (_inherit_from_manifest, ["entry", "manifest"], private_api.inherit_from_manifest),
    (_InclusiveMetricsEvaluator.__init__, ["schema", "expr", "case_sensitive", "include_empty_files"],
     private_api.build_file_filters),
    (_StrictMetricsEvaluator.__init__, ["schema", "expr", "case_sensitive", "include_empty_files"],
     private_api.build_file_filters),
    (arrow_io._read_all_delete_files, ["io", "tasks"], private_api.iter_batches),
    (arrow_io.ArrowScan._record_batches_from_scan_tasks_and_deletes, ["tasks", "deletes_per_file"],
     private_api.iter_batches),
])  # fmt: skip
def test_functions_take(function: Any, parameters: list[str], user: Any) -> None:
    now = list_parameters(function)
    assert now == parameters, f"{function.__qualname__} takes {now}: {user.__name__} expects {parameters}"


@pytest.mark.parametrize(("ours", "theirs", "names"), [
    (TidyCatalog, SqlCatalog, {"_update_and_stage_table", "_write_metadata", "_convert_orm_to_iceberg"}),
    (PatientCatalog, RestCatalog, {"_create_session", "_create_legacy_oauth2_auth_manager", "_refresh_token"}),
])  # fmt: skip
def test_private_methods_that_are_replaced_are_called_by_pyiceberg(ours: type, theirs: type, names: set[str]) -> None:
    code = "".join(inspect.getsource(inspect.getmodule(kind)) for kind in (theirs, Catalog))
    for name in names:
        assert name in vars(ours)
        assert hasattr(theirs, name), f"{theirs.__name__}.{name} is gone: {ours.__name__} replaces it"
        assert list_parameters(getattr(ours, name)) == list_parameters(getattr(theirs, name)), name
        assert re.search(rf"\w\.{name}\(", code), f"pyiceberg no longer calls {name}: {ours.__name__} relies on it"


def test_a_copied_manifest_is_changed_alone() -> None:
    assert Record.__slots__ == ("_data",), "pyiceberg's records keep their fields elsewhere: copy_manifest needs them"
    original = ManifestFile.from_args(manifest_path="a", manifest_length=1)
    copied = private_api.copy_manifest(original)
    copied[0] = "b"
    assert (original.manifest_path, copied.manifest_path) == ("a", "b")


@pytest.mark.parametrize(("limit", "answers"), [(0, (True, True)), (5, (True, False)), (9, (False, False))])
def test_statistics_of_files(limit: int, answers: tuple[bool, bool]) -> None:
    schema = Schema(NestedField(1, "n", LongType(), required=True))
    bounds = {1: (1).to_bytes(8, "little")}, {1: (9).to_bytes(8, "little")}
    file = DataFile.from_args(
        file_path="f", file_format=FileFormat.PARQUET, record_count=3, value_counts={1: 3}, null_value_counts={1: 0},
        lower_bounds=bounds[0], upper_bounds=bounds[1],
    )  # fmt: skip
    some, every = private_api.build_file_filters(schema, GreaterThan("N", limit))
    assert (some(file), every(file)) == answers
