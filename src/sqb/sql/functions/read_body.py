"""What the body of a SQL function says: where it uses its parameters, the tables it reads, the functions it calls.

In a body a name means a column of the body's own FROM first and a parameter after that; `f.x` is the parameter `x` of
`f`. Outside of subqueries there are no columns, so that every name there is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from sqb.sql.analysis.parse import list_identifier_offsets, parse_tree
from sqb.sql.analysis.query import QueryProblem, compute_canonical
from sqb.sql.analysis.references import find_references
from sqb.sql.functions.body import LEAD, Body, Table, Use, Variable
from sqb.sql.functions.builtins import AGGREGATES, GENERATORS, ORDERED_AGGREGATES, VOLATILE, WINDOW
from sqb.sql.text.fallback import find_unpaired_bracket
from sqb.sql.text.lexer import Token, strip_quotes, tokenize_code

_MANY_ROWS = AGGREGATES | ORDERED_AGGREGATES | WINDOW | GENERATORS
# Around a parameter these use its value once, whatever it is.
_ONCE = (
    exp.Paren,
    exp.Cast,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.Neg,
    exp.DPipe,
    exp.Concat,
    exp.Round,
    exp.Floor,
    exp.Ceil,
    exp.Abs,
    exp.Lower,
    exp.Upper,
    exp.EQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
)


def parse_body(text: str, function: str, parameters: Sequence[str], forced: Mapping[int, str]) -> Body:
    """What a body says, for a function and parameters in lower case; a `QueryProblem` when it cannot be one."""
    tokens = tokenize_code(text)
    problem = find_unpaired_bracket(tokens)
    if problem is not None:
        raise problem
    whole = f"{LEAD}{text})"
    tree = _parse_tree(whole)
    root = _get_expression(tree)
    _refuse_many_rows(root)
    uses = tuple(sorted(_iter_uses(root, function, parameters), key=lambda use: use.start))
    _refuse_unclear(tokens, tree, uses, parameters)
    references = find_references(tree, {at + len(LEAD): kind for at, kind in forced.items()})
    tables = tuple(Table(r.parts, r.start - len(LEAD), r.end - len(LEAD), r.kind) for r in references)
    canonical = compute_canonical(whole, references, list_identifier_offsets(tree))
    return Body(uses, tables, tuple(_iter_variables(tokens)), canonical, _has_query(root))


def _has_query(root: exp.Expr) -> bool:
    return root.find(exp.Select, exp.SetOperation) is not None


def _parse_tree(whole: str) -> exp.Query:
    try:
        return parse_tree(whole)
    except QueryProblem as problem:
        start = max(0, problem.start - len(LEAD))
        raise QueryProblem("parse", problem.message, start, start + problem.end - problem.start) from problem


def _get_expression(tree: exp.Query) -> exp.Expr:
    """The body itself: one value, and nothing beside it."""
    items = tree.expressions if isinstance(tree, exp.Select) else []
    clauses = [k for k, v in tree.args.items() if v and k not in ("expressions", "kind")]
    if len(items) != 1 or clauses or not isinstance(items[0], exp.Paren | exp.Subquery):
        raise QueryProblem("parse", "a scalar function returns one value", 0, 1, "write RETURN and one expression")
    root: exp.Expr = items[0]
    if isinstance(root, exp.Paren) and isinstance(root.this, exp.Alias | exp.Star):
        raise QueryProblem("parse", "a scalar function returns one value without a name", 0, 1)
    return root


def _refuse_many_rows(root: exp.Expr) -> None:
    for node in root.walk():
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        is_refused = isinstance(node, exp.AggFunc | exp.Window | exp.Explode) or name in _MANY_ROWS
        if is_refused and _find_enclosing_query(node, root) is None:
            start = max(0, node.meta.get("start", len(LEAD)) - len(LEAD))
            raise QueryProblem(
                "parse",
                "a scalar function cannot aggregate, use a window or make rows",
                start,
                start + max(1, len(node.name if name else "")),
                "do that in the model, and give the function its result; a subquery may aggregate",
            )


def _find_enclosing_query(node: exp.Expr, root: exp.Expr) -> exp.Expr | None:
    """The subquery of the body that something is in."""
    above = node.parent
    while above is not None and above is not root.parent:
        if isinstance(above, exp.Query) and not isinstance(above, exp.Subquery):
            return above
        above = above.parent
    return None


def _iter_uses(root: exp.Expr, function: str, parameters: Sequence[str]) -> Iterator[Use]:
    for column in root.find_all(exp.Column):
        parts = [p for p in column.parts if "start" in p.meta]
        if not parts or _is_variable(column, root):
            continue
        names = [p.name.lower() for p in parts]
        inside = _find_enclosing_query(column, root) is not None
        qualified = len(names) > 1 and names[0] == function and names[1] in parameters
        start, end = parts[0].meta["start"] - len(LEAD), parts[int(qualified)].meta["end"] + 1 - len(LEAD)
        if isinstance(column.this, exp.Star) and not inside:
            raise QueryProblem("parse", "a star has no meaning here", start, end)
        if qualified or names[0] in parameters:
            yield Use(names[int(qualified)], start, end, inside, not inside and _is_used_once(column, root))
        elif not inside and names[0] not in VOLATILE:
            raise QueryProblem("unknown", parts[0].name, start, end)


def _is_variable(column: exp.Expr, root: exp.Expr) -> bool:
    name, above = column.parts[0].name.lower(), column.parent  # type: ignore[attr-defined]
    while above is not None and above is not root.parent:
        if isinstance(above, exp.Lambda) and any(v.name.lower() == name for v in above.expressions):
            return True
        above = above.parent
    return False


def _is_used_once(column: exp.Expr, root: exp.Expr) -> bool:
    above = column.parent
    while above is not None and above is not root.parent:
        if type(above) not in _ONCE and not isinstance(above, exp.Cast):
            return False
        above = above.parent
    return True


def _refuse_unclear(tokens: Sequence[Token], tree: exp.Query, uses: Sequence[Use], parameters: Sequence[str]) -> None:
    """Refuse a word that has a parameter's name and is neither a use of it nor surely something else."""
    identifier_places = {place - len(LEAD) for place in list_identifier_offsets(tree)}
    for index, token in enumerate(tokens):
        if token.kind not in ("word", "quoted") or strip_quotes(token).lower() not in parameters:
            continue
        before = tokens[index - 1].text.upper() if index else ""
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        is_other_name = before in (".", "AS", "::") or (after is not None and (after.text in ("(", "=>", "->")))
        is_use = any(use.start <= token.start < use.end for use in uses)
        if not (
            is_use
            or is_other_name
            or token.start in identifier_places
            or (after is not None and after.kind == "string")
        ):
            raise QueryProblem(
                "parse",
                f"{token.text} may be the parameter or a column here",
                token.start,
                token.end,
                "give the parameter another name",
            )


def _iter_variables(tokens: Sequence[Token]) -> Iterator[Variable]:
    """The variables of lambdas, each from its own name to the end of the lambda."""
    for index, token in enumerate(tokens):
        if token.text != "->" or index == 0:
            continue
        first = index - 1
        if tokens[first].text == ")":
            while first > 0 and tokens[first].text != "(":
                first -= 1
        end = _find_end_of_argument(tokens, index)
        for name in tokens[first:index]:
            if name.kind in ("word", "quoted"):
                yield Variable(strip_quotes(name).lower(), tokens[first].start, end)


def _find_end_of_argument(tokens: Sequence[Token], index: int) -> int:
    depth = 0
    for token in tokens[index:]:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if depth < 0 or (depth == 0 and token.text == ","):
            return token.start
    return tokens[-1].end
