"""Tables as OpenLineage has them: their columns, versions and places, and what their columns are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    OutputDatasetFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    symlinks_dataset,
)

from sqb import __version__
from sqb.build.events import NodeDone
from sqb.compile.model import Node, Project
from sqb.compile.python.model import PythonNode
from sqb.errors.base import SqbError
from sqb.inspect.lineage import Ref, TableLineage, trace_model
from sqb.lake.port import TableState
from sqb.names import Relation
from sqb.operations.telemetry.openlineage.names import LineageNames, name_location
from sqb.sql.analysis.lineage import trace_lineage
from sqb.types.format import format_sql_type
from sqb.types.iceberg import read_stored_type

# Who made the events, as a package URL.
PRODUCER = f"pkg:pypi/sqb-spark@{__version__}"

_F = TypeVar("_F")


def make_facet(kind: Callable[..., _F], **values: Any) -> _F:
    """A facet of an event, with who made it."""
    return kind(**values, producer=PRODUCER)


class Datasets:
    """The tables that a run reads and makes, as datasets of events."""

    def __init__(
        self,
        project: Project,
        names: LineageNames,
        states: Mapping[Relation, TableState],
        externals: Mapping[str, Relation],
    ) -> None:
        self._project, self._names, self._states, self._externals = project, names, states, externals

    def list_inputs(self, node: Node | PythonNode) -> list[InputDataset]:
        """The tables that a node reads."""
        names = node.upstream if isinstance(node, Node) else node.after
        relations = {name: relation for name in names if (relation := self._find_relation(name)) is not None}
        return [
            InputDataset(self._names.dataset_namespace, self._names.name_table(r), facets=self._describe_table(r, name))
            for name, r in relations.items()
        ]

    def list_outputs(self, node: Node | PythonNode, done: NodeDone | None = None) -> list[OutputDataset]:
        """The table that a node makes, if any; with its columns and rows once it is made."""
        relation = node.relation
        if relation is None:
            return []
        facets: dict[str, DatasetFacet] = {}
        written: dict[str, OutputDatasetFacet] = {}
        if done is not None:
            facets = {**self._describe_table(relation, node.name), **self._trace_columns(node)}
            if node.kind != "view":
                kind = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
                written["outputStatistics"] = make_facet(kind, rowCount=done.rows)
        name = self._names.name_table(relation)
        return [OutputDataset(self._names.dataset_namespace, name, facets=facets, outputFacets=written)]

    def _find_relation(self, name: str) -> Relation | None:
        node = self._project.nodes.get(name)
        if node is not None:
            return node.relation
        external = self._project.externals.get(name)
        return self._externals.get(name, external.relation) if external is not None else None

    def _describe_table(self, relation: Relation, name: str) -> dict[str, DatasetFacet]:
        state = self._states.get(relation)
        if state is None:
            return {}
        node = self._project.nodes.get(name)
        texts = node.settings.get("columns", {}) if node is not None else {}
        fields = [
            schema_dataset.SchemaDatasetFacetFields(
                name=column.name,
                type=format_sql_type(read_stored_type(column.type)),
                description=_find_description(texts, column.name),
                ordinal_position=position,
            )
            for position, column in enumerate(state.columns, 1)
        ]
        facets: dict[str, DatasetFacet] = {"schema": make_facet(schema_dataset.SchemaDatasetFacet, fields=fields)}
        if state.snapshot_id is not None:
            kind = dataset_version_dataset.DatasetVersionDatasetFacet
            facets["version"] = make_facet(kind, datasetVersion=str(state.snapshot_id))
        if identifiers := self._list_other_names(relation, state):
            facets["symlinks"] = make_facet(symlinks_dataset.SymlinksDatasetFacet, identifiers=identifiers)
        return facets

    def _list_other_names(self, relation: Relation, state: TableState) -> list[symlinks_dataset.Identifier]:
        identifiers = []
        if state.location and not state.is_view:
            namespace, name = name_location(state.location)
            identifiers.append(symlinks_dataset.Identifier(namespace, name, "LOCATION"))
        if self._names.name_table(relation) != str(relation):
            identifiers.append(symlinks_dataset.Identifier(self._names.dataset_namespace, str(relation), "TABLE"))
        return identifiers

    def _trace_columns(self, node: Node | PythonNode) -> dict[str, DatasetFacet]:
        """The columns that each column is made of, and those by which rows are chosen; nothing where unknown."""
        if not isinstance(node, Node) or node.type != "model" or node.python:
            return {}
        tables = {name: self._build_table(name) for name in node.reads}
        with suppress(SqbError):
            traced = trace_model(node, tables, self._list_columns(node.relation), trace_lineage)
            fields = {
                column: column_lineage_dataset.Fields(inputFields=self._list_fields(refs, "DIRECT"))
                for column, refs in traced.columns.items()
                if refs
            }
            if fields or traced.rows_from:
                indirect = self._list_fields(traced.rows_from, "INDIRECT")
                kind = column_lineage_dataset.ColumnLineageDatasetFacet
                return {"columnLineage": make_facet(kind, fields=fields, dataset=indirect)}
        return {}

    def _build_table(self, name: str) -> TableLineage:
        relation = self._find_relation(name)
        columns = self._list_columns(relation) if relation is not None else None
        unknown = "" if columns is not None else "its columns are not known"
        return TableLineage(name, "table", "table", relation, columns=dict.fromkeys(columns or (), ()), unknown=unknown)

    def _list_columns(self, relation: Relation) -> list[str] | None:
        state = self._states.get(relation)
        return [column.name for column in state.columns] if state is not None else None

    def _list_fields(self, refs: Iterable[Ref], how: str) -> list[column_lineage_dataset.InputField]:
        fields = []
        for name, column in refs:
            relation = self._find_relation(name)
            if relation is not None:
                fields.append(
                    column_lineage_dataset.InputField(
                        self._names.dataset_namespace,
                        self._names.name_table(relation),
                        column,
                        [column_lineage_dataset.Transformation(type=how)],
                    )
                )
        return fields


def _find_description(texts: Any, column: str) -> str | None:
    """What a model's header says of a column; a seed's settings have types there instead."""
    value = texts.get(column) if isinstance(texts, Mapping) else None
    return value if isinstance(value, str) and value else None
