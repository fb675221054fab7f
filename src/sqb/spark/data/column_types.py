"""The types of DataFrames' columns, as types of the project."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from sqb.types.model import Type
from sqb.types.spark_json import from_json_type


def convert_type(kind: DataType) -> Type:
    """A type of Spark's as one of the project's."""
    return from_json_type(kind.jsonValue())


def list_types(frame: DataFrame) -> list[tuple[str, Type]]:
    """The columns of a frame with their types; names may be there twice."""
    return [(field.name, convert_type(field.dataType)) for field in frame.schema.fields]
