"""From the parser's tree to the outline of an expression. A form that is not listed here is opaque."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from sqb.sql.columns.outline import (
    Call,
    Constant,
    Conversion,
    Expression,
    Field,
    Lambda,
    Name,
    Nested,
    Opaque,
    Operation,
    Query,
)
from sqb.types import model as m
from sqb.types.model import ArrayType, DecimalType, MapType, StructType, Type
from sqb.types.model import Field as StructField

ReadQuery = Callable[[exp.Expr], Query]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "<=>",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.DPipe: "||",
    exp.And: "and",
    exp.Or: "or",
    exp.Not: "not",
    exp.Neg: "neg",
    exp.Is: "is",
    exp.Between: "between",
    exp.Like: "like",
    exp.ILike: "like",
    exp.RegexpLike: "like",
    exp.Paren: "()",
}
# Expressions without a place of their own whose parts are expressions all the same.
_TRANSPARENT = frozenset(
    [
        exp.Tuple,
        exp.Distinct,
        exp.Ordered,
        exp.Order,
        exp.Where,
        exp.BitwiseAnd,
        exp.BitwiseOr,
        exp.BitwiseXor,
        exp.BitwiseNot,
        exp.Extract,
        exp.Trim,
        exp.GroupingSets,
        exp.Cube,
        exp.Rollup,
        exp.NullSafeNEQ,
        exp.Cluster,
        exp.Distribute,
        exp.Sort,
        exp.Interval,
    ]
)


def list_children(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The parts of a node, each with its key."""
    for key, value in node.args.items():
        if isinstance(value, list):
            for child in value:
                if isinstance(child, exp.Expr):
                    yield key, child
        elif isinstance(value, exp.Expr):
            yield key, value


def find_span(node: exp.Expr) -> tuple[int, int]:
    """The half-open span of what is known of a node's place; (-1, -1) when nothing is."""
    start, end = -1, -1
    stack = [node]
    while stack:
        part = stack.pop()
        meta = part.meta
        if "start" in meta:
            start = meta["start"] if start < 0 else min(start, meta["start"])
            end = max(end, meta["end"] + 1)
        stack.extend(child for _, child in list_children(part))
    return start, end


def read_name(column: exp.Column) -> Name:
    """The name of a column as written."""
    parts = column.parts
    return Name(tuple(p.name for p in parts), parts[0].meta["start"], parts[-1].meta["end"] + 1)


class ExpressionReader:
    """Reads the expressions of one text; `counts` has the number of arguments of each call, by where it begins."""

    def __init__(self, text: str, counts: Mapping[int, int], read_query: ReadQuery) -> None:
        self.text, self.counts, self.read_query = text, counts, read_query

    def read(self, node: exp.Expr) -> Expression:
        kind = type(node)
        if isinstance(node, exp.Column):
            return Opaque() if isinstance(node.this, exp.Star) else read_name(node)
        operator = _OPERATORS.get(kind)
        if operator is not None:
            return Operation(operator, tuple(self.read(child) for _, child in list_children(node)))
        if kind is exp.Literal:
            return _read_literal(node)
        read = _READERS.get(kind)
        if read is not None:
            return read(self, node)
        if isinstance(node, exp.Query):
            return Nested(self.read_query(node), "scalar")
        if isinstance(node, exp.Func):
            return self._read_call(node)
        if kind in _TRANSPARENT:
            return self.read_parts(node)
        return Opaque()

    def read_parts(self, node: exp.Expr) -> Opaque:
        return Opaque(tuple(self.read(child) for _, child in list_children(node)))

    def _read_call(self, node: exp.Expr) -> Expression:
        meta = node.meta
        if "start" not in meta:
            # Which function it is cannot be told from sqlglot's name for it.
            return Call("", self.read_parts(node).parts, -1, -1)
        start, end = meta["start"], meta["end"] + 1
        name = self.text[start:end].strip("`").lower()
        children = [_strip_distinct(child) for _, child in list_children(node)]
        if name == "identifier":
            return Opaque()
        if "date" in name or "time" in name:
            children = [c for c in children if not _is_word(c)]
        arguments = tuple(self.read(child) for child in children)
        return Call(name, arguments, start, end, False, self.counts.get(start, -1))

    def read_modified(self, node: exp.Expr) -> Expression:
        """An aggregate with FILTER, WITHIN GROUP or IGNORE NULLS: what follows it is part of what it works on."""
        value = self.read(node.this)
        more = tuple(self.read(child) for key, child in list_children(node) if key != "this")
        return value._replace(arguments=value.arguments + more) if isinstance(value, Call) else Opaque((value, *more))

    def read_window(self, node: exp.Expr) -> Expression:
        value = self.read(node.this)
        parts = self._read_window_parts(node)
        has_order = node.args.get("order") is not None or node.args.get("alias") is not None
        is_distinct = isinstance(value, Call) and isinstance(node.this.args.get("this"), exp.Distinct)
        operator = "over distinct" if is_distinct else "over" if has_order else "over unordered"
        return Operation(operator, (value._replace(is_windowed=True) if isinstance(value, Call) else value, *parts))

    def _read_window_parts(self, node: exp.Expr) -> tuple[Expression, ...]:
        children = (c for key, c in list_children(node) if key in ("partition_by", "order"))
        return tuple(self.read(child) for child in children)

    def read_case(self, node: exp.Expr) -> Expression:
        value, default = node.args.get("this"), node.args.get("default")
        conditions = [self.read(branch.this) for branch in node.args["ifs"]]
        results = [self.read(branch.args["true"]) for branch in node.args["ifs"]]
        results += [self.read(default)] if default is not None else []
        tested = (Opaque((self.read(value), *conditions)),) if value is not None else tuple(conditions)
        return Operation("case", (Opaque(tested) if value is not None else Operation("when", tested), *results))

    def read_if(self, node: exp.Expr) -> Expression:
        if node.args.get("true") is None or node.args.get("false") is None:
            return self.read_parts(node)
        condition = Operation("when", (self.read(node.this),))
        return Operation("case", (condition, self.read(node.args["true"]), self.read(node.args["false"])))

    def read_cast(self, node: exp.Expr) -> Expression:
        target = node.args["to"]
        return Conversion(self.read(node.this), _read_type(target), bool(node.args.get("safe")))

    def read_in(self, node: exp.Expr) -> Expression:
        value = self.read(node.this)
        query = node.args.get("query")
        if query is not None:
            inner = query.this if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query) else query
            return Operation("in query", (value, Nested(self.read_query(inner), "in")))
        return Operation("in", (value, *(self.read(e) for e in node.args.get("expressions") or ())))

    def read_exists(self, node: exp.Expr) -> Expression:
        if isinstance(node.this, exp.Query):
            return Operation("exists", (Nested(self.read_query(node.this), "exists"),))
        return self._read_call(node)

    def read_dot(self, node: exp.Expr) -> Expression:
        field = node.args["expression"]
        if not isinstance(field, exp.Identifier):
            return Opaque()
        return Field(self.read(node.this), field.name, *find_span(field))

    def read_lambda(self, node: exp.Expr) -> Expression:
        return Lambda(tuple(p.name.lower() for p in node.expressions), self.read(node.this))

    def read_struct(self, node: exp.Expr) -> Expression:
        values = (c.args["expression"] if isinstance(c, exp.PropertyEQ) else c for _, c in list_children(node))
        return Opaque(tuple(self.read(value) for value in values))

    def read_bracket(self, node: exp.Expr) -> Expression:
        return Operation("[]", tuple(self.read(child) for _, child in list_children(node)))

    def read_kwarg(self, node: exp.Expr) -> Expression:
        return self.read(node.args["expression"])

    def read_first(self, node: exp.Expr) -> Expression:
        return Opaque((self.read(node.this),))

    def read_alias(self, node: exp.Expr) -> Expression:
        return self.read(node.this)


def _strip_distinct(node: exp.Expr) -> exp.Expr:
    """An argument without the DISTINCT before it."""
    parts = node.expressions if isinstance(node, exp.Distinct) else []
    return parts[0] if len(parts) == 1 else node


def _is_word(node: exp.Expr) -> bool:
    """A unit of time, which sqlglot may take for a column."""
    return isinstance(node, exp.Var) or (isinstance(node, exp.Column) and node.name.upper() in _UNITS)


_UNITS = frozenset(
    "YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND NANOSECOND YEARS DAYS".split()
)


def _read_literal(node: exp.Expr) -> Expression:
    text = node.this
    start, end = (node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else (-1, -1)
    if node.args.get("is_string"):
        return Constant(m.STRING, text, start, end)
    return Constant(_type_number(text), text, start, end)


def _type_number(text: str) -> Type:
    if text.isdigit():
        size = int(text)
        if size < 2**63:
            return m.INT if size < 2**31 else m.BIGINT
        return m.UNKNOWN
    whole, dot, fraction = text.partition(".")
    if dot and (whole + fraction).isdigit():
        digits = len((whole.lstrip("0") + fraction).lstrip("0")) if not whole.strip("0") else len(whole) + len(fraction)
        precision = max(digits, len(fraction), 1)
        return DecimalType(precision, len(fraction)) if precision <= m.MAX_PRECISION else m.UNKNOWN
    return m.UNKNOWN


_TYPES: dict[object, Type] = {
    exp.DType.BOOLEAN: m.BOOLEAN,
    exp.DType.TINYINT: m.TINYINT,
    exp.DType.SMALLINT: m.SMALLINT,
    exp.DType.INT: m.INT,
    exp.DType.BIGINT: m.BIGINT,
    exp.DType.FLOAT: m.FLOAT,
    exp.DType.DOUBLE: m.DOUBLE,
    exp.DType.TEXT: m.STRING,
    exp.DType.BINARY: m.BINARY,
    exp.DType.DATE: m.DATE,
    exp.DType.TIMESTAMPTZ: m.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: m.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: m.TIMESTAMP_NTZ,
    exp.DType.VARIANT: m.VARIANT,
}


def _read_type(target: exp.Expr) -> Type:
    """A type as it is written; UNKNOWN for one that sqlglot reads otherwise than Spark."""
    if not isinstance(target, exp.DataType) or target.args.get("collate") is not None:
        return m.UNKNOWN
    kind, parts = target.this, target.expressions
    if kind == exp.DType.DECIMAL:
        digits = [int(p.name) for p in parts] or [10]
        scale = digits[1] if len(digits) > 1 else 0
        # Spark refuses others, with its own words.
        return DecimalType(digits[0], scale) if 0 < digits[0] <= 38 and scale <= digits[0] else m.UNKNOWN
    if kind == exp.DType.ARRAY and len(parts) == 1:
        return ArrayType(_read_type(parts[0]))
    if kind == exp.DType.MAP and len(parts) == 2:
        return MapType(_read_type(parts[0]), _read_type(parts[1]))
    if kind == exp.DType.STRUCT and all(isinstance(p, exp.ColumnDef) for p in parts):
        return StructType(tuple(StructField(p.name, _read_type(p.args["kind"])) for p in parts))
    return _TYPES.get(kind, m.UNKNOWN)


_READERS: dict[type[exp.Expr], Callable[[ExpressionReader, exp.Expr], Expression]] = {
    exp.Boolean: lambda _, node: Constant(m.BOOLEAN, "", *find_span(node)),
    exp.Null: lambda _, node: Constant(m.VOID, "", *find_span(node)),
    exp.Case: ExpressionReader.read_case,
    exp.If: ExpressionReader.read_if,
    exp.Cast: ExpressionReader.read_cast,
    exp.TryCast: ExpressionReader.read_cast,
    exp.In: ExpressionReader.read_in,
    exp.Exists: ExpressionReader.read_exists,
    exp.Dot: ExpressionReader.read_dot,
    exp.Lambda: ExpressionReader.read_lambda,
    exp.Struct: ExpressionReader.read_struct,
    exp.Bracket: ExpressionReader.read_bracket,
    exp.Kwarg: ExpressionReader.read_kwarg,
    exp.Alias: ExpressionReader.read_alias,
    exp.Collate: ExpressionReader.read_first,
    exp.Filter: ExpressionReader.read_modified,
    exp.WithinGroup: ExpressionReader.read_modified,
    exp.IgnoreNulls: ExpressionReader.read_modified,
    exp.RespectNulls: ExpressionReader.read_modified,
    exp.Window: ExpressionReader.read_window,
}
