"""The columns that a model promises: `id bigint not null, amount decimal(10,2), tags array<string>`.

Types are kept in one spelling, so that equal texts are equal types.
"""

from __future__ import annotations

from sqb.project.models.grammar import Malformed, Span, find_inside
from sqb.project.values import ContractColumn
from sqb.types.model import Type, fold_names, to_plain_text
from sqb.types.parse import BadType, TypeReader, is_declarable


def read_contract(text: str, span: Span) -> tuple[ContractColumn, ...]:
    """The columns in a span of a text; raises Malformed where it is not a list of columns."""
    inside = find_inside(text, span, "([") or span
    try:
        return _read_columns(TypeReader(text, inside.start, inside.end))
    except BadType as error:
        raise Malformed(error.message, error.offset, error.hint) from None


def _read_columns(reader: TypeReader) -> tuple[ContractColumn, ...]:
    columns: dict[str, ContractColumn] = {}
    while not reader.is_at_end:
        _, _, offset = reader.token
        name = reader.read_name("a column's name")
        if name.lower() in columns:
            raise Malformed(f"the contract has the column `{name}` twice", offset)
        _, _, type_offset = reader.token
        kind = reader.read_type()
        if not is_declarable(kind):
            raise Malformed(f"a column cannot have the type {kind}", type_offset, "write string, or another type")
        columns[name.lower()] = ContractColumn(name, format_contract_type(kind), reader.read_not_null())
        if not reader.is_at_end:
            reader.expect(",", "a comma or NOT NULL")
    if not columns:
        raise Malformed("a contract needs columns", reader.token[2], "write `id bigint not null, name string`")
    return tuple(columns.values())


def format_contract_type(kind: Type) -> str:
    """A type in the spelling of contracts: names in lower case, and `string` for every kind of text."""
    return str(fold_names(to_plain_text(kind)))
