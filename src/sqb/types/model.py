"""Column types as values: those of Spark 4.1, and those that only Iceberg has.

Types are frozen, can be hashed, and are equal if they are the same type. Whether a part may be NULL is carried along
for those who write schemas, and does not make two types different. The text of a type is Spark's short spelling, such
as `map<string,decimal(10,2)>`. Knows no notation but that one: see `parse`, `format`, `spark_json`, `iceberg`, `arrow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from sqb.light_dataclass import dataclass

MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class Type:
    """A column type; one of the classes below."""


@dataclass(frozen=True, slots=True)
class SimpleType(Type):
    """A type that its name says in full, such as `bigint`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType(Type):
    """Exact numbers of up to `precision` digits, of which `scale` follow the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= MAX_PRECISION or not 0 <= self.scale <= self.precision:
            raise ValueError(str(self))

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class CharType(Type):
    """Text of exactly so many characters."""

    length: int

    def __str__(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True, slots=True)
class VarcharType(Type):
    """Text of at most so many characters."""

    length: int

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True, slots=True)
class CollatedType(Type):
    """Text that is compared by a collation other than that of plain strings."""

    collation: str

    def __str__(self) -> str:
        return f"string collate {self.collation}"


@dataclass(frozen=True, slots=True)
class TimeType(Type):
    """A time of day, with so many digits of a second."""

    precision: int

    def __str__(self) -> str:
        return f"time({self.precision})"


@dataclass(frozen=True, slots=True)
class IntervalType(Type):
    """A span of time from one unit to another: `interval day to second`. `interval` alone is a simple type."""

    first: str
    last: str

    def __str__(self) -> str:
        return f"interval {self.first}" + (f" to {self.last}" if self.last != self.first else "")


@dataclass(frozen=True, slots=True)
class ArrayType(Type):
    """A list of values of one type."""

    element: Type
    contains_null: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(Type):
    """Values by keys."""

    key: Type
    value: Type
    contains_null: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    type: Type
    nullable: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"{self.name}:{self.type}"


@dataclass(frozen=True, slots=True)
class StructType(Type):
    """Fields in order, each with its type."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"

    def fold_fields(self) -> dict[str, Field]:
        """The fields by their names in lower case, which is how Spark finds them."""
        return {f.name.lower(): f for f in self.fields}


@dataclass(frozen=True, slots=True)
class IcebergType(Type):
    """A type of Iceberg's that Spark does not have, by Iceberg's name: `uuid`, `fixed[16]`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OpaqueType(Type):
    """A type of Spark's of which only the text is known here, such as `geometry(4326)`."""

    text: str

    def __str__(self) -> str:
        return self.text


BOOLEAN = SimpleType("boolean")
TINYINT = SimpleType("tinyint")
SMALLINT = SimpleType("smallint")
INT = SimpleType("int")
BIGINT = SimpleType("bigint")
FLOAT = SimpleType("float")
DOUBLE = SimpleType("double")
STRING = SimpleType("string")
BINARY = SimpleType("binary")
DATE = SimpleType("date")
TIMESTAMP = SimpleType("timestamp")
TIMESTAMP_NTZ = SimpleType("timestamp_ntz")
INTERVAL = SimpleType("interval")
VARIANT = SimpleType("variant")
# A column without a value: NULL in every row.
VOID = SimpleType("void")
# A type that only Spark can tell.
UNKNOWN = SimpleType("unknown")

# The integers from the narrowest on, with the bits of a number beside its sign and the digits that it can have.
INTEGER_BITS: Mapping[Type, int] = {TINYINT: 7, SMALLINT: 15, INT: 31, BIGINT: 63}
INTEGER_DIGITS: Mapping[Type, int] = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 19}


def is_integer(kind: Type) -> bool:
    """Whether values of a type are whole numbers of a fixed width."""
    return kind in INTEGER_BITS


def is_fraction(kind: Type) -> bool:
    """Whether values of a type are floating-point numbers."""
    return kind in (FLOAT, DOUBLE)


def is_number(kind: Type) -> bool:
    """Whether values of a type are numbers."""
    return is_integer(kind) or is_fraction(kind) or isinstance(kind, DecimalType)


def is_text(kind: Type) -> bool:
    """Whether values of a type are texts, of whichever length and collation."""
    return kind == STRING or isinstance(kind, CharType | VarcharType | CollatedType)


def is_moment(kind: Type) -> bool:
    """Whether values of a type are timestamps, with or without a zone."""
    return kind in (TIMESTAMP, TIMESTAMP_NTZ)


def replace_leaves(kind: Type, replace: Callable[[Type], Type]) -> Type:
    """The type with what `replace` makes of each type in it that holds no others."""
    match kind:
        case ArrayType(element):
            return ArrayType(replace_leaves(element, replace), kind.contains_null)
        case MapType(key, value):
            return MapType(replace_leaves(key, replace), replace_leaves(value, replace), kind.contains_null)
        case StructType(fields):
            return StructType(tuple(Field(f.name, replace_leaves(f.type, replace), f.nullable) for f in fields))
        case _:
            return replace(kind)


def iter_parts(kind: Type) -> Iterator[Type]:
    """The type and every type in it."""
    yield kind
    match kind:
        case ArrayType(element):
            yield from iter_parts(element)
        case MapType(key, value):
            yield from iter_parts(key)
            yield from iter_parts(value)
        case StructType(fields):
            for part in fields:
                yield from iter_parts(part.type)


def has_empty_struct(kind: Type) -> bool:
    """Whether there is a struct without fields somewhere in a type."""
    return any(isinstance(part, StructType) and not part.fields for part in iter_parts(kind))


def has_fraction(kind: Type) -> bool:
    """Whether there are floating-point numbers somewhere in a type."""
    return any(is_fraction(part) for part in iter_parts(kind))


def has_map(kind: Type) -> bool:
    """Whether there is a map somewhere in a type; Spark compares no maps."""
    return any(isinstance(part, MapType) for part in iter_parts(kind))


def make_nullable(kind: Type) -> Type:
    """The type with fields that may all be NULL."""
    match kind:
        case ArrayType(element):
            return ArrayType(make_nullable(element))
        case MapType(key, value):
            return MapType(make_nullable(key), make_nullable(value))
        case StructType(fields):
            return StructType(tuple(Field(f.name, make_nullable(f.type)) for f in fields))
        case _:
            return kind


def fold_names(kind: Type) -> Type:
    """The type with the names of fields in lower case: types that differ only in case are then equal."""
    match kind:
        case ArrayType(element):
            return ArrayType(fold_names(element), kind.contains_null)
        case MapType(key, value):
            return MapType(fold_names(key), fold_names(value), kind.contains_null)
        case StructType(fields):
            return StructType(tuple(Field(f.name.lower(), fold_names(f.type), f.nullable) for f in fields))
        case _:
            return kind


def to_plain_text(kind: Type) -> Type:
    """The type with `string` for every kind of text, as queries see columns of `char` and `varchar`."""
    return replace_leaves(kind, lambda part: STRING if is_text(part) else part)
