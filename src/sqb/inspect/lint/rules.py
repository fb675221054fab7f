"""The rules that sqb has; each is a function from a model to remarks, found on tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sqb.inspect.lint.model import LintedModel, Remark, Rule, RuleOptions
from sqb.sql.text.lexer import Token, find_closing, tokenize_code

_CLAUSES = frozenset(
    ["WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTERSECT", "EXCEPT", "MINUS", "QUALIFY", "WINDOW", "SORT"]
)
_SIDES = frozenset(["LEFT", "RIGHT", "FULL", "INNER", "OUTER", "SEMI", "ANTI"])


def require_owner(model: LintedModel, options: RuleOptions) -> Iterator[Remark]:
    if not model.settings.get("owner"):
        yield Remark("the model has no owner", hint=_suggest_key(model, "owner", "team"))


def require_description(model: LintedModel, options: RuleOptions) -> Iterator[Remark]:
    if not model.settings.get("description"):
        yield Remark("the model has no description", hint=_suggest_key(model, "description", "'what a row is'"))


def require_checks(model: LintedModel, options: RuleOptions) -> Iterator[Remark]:
    if not model.has_checks:
        yield Remark("the model has no checks", hint=_suggest_key(model, "constraints", "[not_null(id)]"))


def _suggest_key(model: LintedModel, key: str, value: str) -> str:
    """How a key is written in the form of header that the model has."""
    if [t.text.upper() for t in tokenize_code(model.text[: model.body_start])[:2]] == ["MODEL", "("]:
        return f"write `{key} {value}` in its MODEL block"
    return f"write `-- @{key}: {value}` at its top"


def match_name(model: LintedModel, options: RuleOptions) -> Iterator[Remark]:
    if options.pattern and not re.fullmatch(options.pattern, model.short_name):
        yield Remark(f'the name "{model.short_name}" does not match {options.pattern}')


def match_columns(model: LintedModel, options: RuleOptions) -> Iterator[Remark]:
    for name, _ in model.columns:
        if options.pattern and not re.fullmatch(options.pattern, name):
            yield Remark(f'the column "{name}" does not match {options.pattern}')


def refuse_star(model: LintedModel, options: RuleOptions) -> Iterator[Remark]:
    """Stars over tables; one over a CTE says nothing that the text does not say."""
    tokens = tokenize_code(model.text, model.body_start)
    ctes = _list_cte_names(tokens)
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text.upper() if index else ""
        if token.text != "*" or before not in ("SELECT", "DISTINCT", "ALL", ",", "."):
            continue
        if before == "," and not _is_end_of_item(tokens, index + 1):
            continue
        start = tokens[index - 2].start if before == "." and index > 1 else token.start
        if _find_table(tokens, index) not in ctes:
            yield Remark("a star takes whatever columns the table has", start, token.end, "name the columns")


def refuse_order(model: LintedModel, options: RuleOptions) -> Iterator[Remark]:
    """ORDER BY at the end of a query whose rows become a table."""
    if model.kind == "view":
        return
    tokens = tokenize_code(model.text, model.body_start)
    depth, order = 0, None
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        word = token.text.upper()
        follows = tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
        if depth == 0 and word == "ORDER" and follows == "BY":
            order = (token.start, tokens[index + 1].end)
        elif depth == 0 and word in ("LIMIT", "OFFSET"):
            order = None
    if order is not None:
        hint = "leave it out; `sorted_by` sorts the rows in the table's files"
        yield Remark("ORDER BY without LIMIT sorts rows that a table does not keep in order", *order, hint)


def refuse_open_joins(model: LintedModel, options: RuleOptions) -> Iterator[Remark]:
    """Joins without a condition that do not say CROSS."""
    tokens = tokenize_code(model.text, model.body_start)
    for index, token in enumerate(tokens):
        if token.kind != "word" or token.text.upper() != "JOIN":
            continue
        first = index
        while first and tokens[first - 1].text.upper() in _SIDES:
            first -= 1
        word = tokens[first - 1].text.upper() if first else ""
        follows = tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
        if word not in ("CROSS", "NATURAL") and follows != "LATERAL" and not _has_condition(tokens, index + 1):
            hint = "write ON or USING, or CROSS JOIN if every pair of rows is meant"
            yield Remark("this join has no condition", tokens[first].start, token.end, hint)


def _has_condition(tokens: list[Token], index: int) -> bool:
    while index < len(tokens):
        word = tokens[index].text.upper()
        if word in ("ON", "USING"):
            return True
        if tokens[index].text == "(":
            index = find_closing(tokens, index) or len(tokens)
        elif word in _CLAUSES or word in ("JOIN", ",", ")") or (word == "CROSS"):
            return word == "JOIN" and _is_nested(tokens, index)
        index += 1
    return False


def _is_nested(tokens: list[Token], index: int) -> bool:
    """Whether the conditions of two joins come after both: `a JOIN b JOIN c ON … ON …`."""
    conditions = joins = 0
    for token in tokens[index:]:
        word = token.text.upper()
        joins += word == "JOIN"
        conditions += word in ("ON", "USING")
        if word in _CLAUSES:
            break
    return conditions > joins


def _is_end_of_item(tokens: list[Token], index: int) -> bool:
    return index >= len(tokens) or tokens[index].text.upper() in (",", "FROM", ")", "EXCEPT")


def _list_cte_names(tokens: list[Token]) -> set[str]:
    names = set()
    for index, token in enumerate(tokens[:-2]):
        if (
            token.kind in ("word", "quoted")
            and tokens[index + 1].text.upper() == "AS"
            and tokens[index + 2].text == "("
        ):
            before = tokens[index - 1].text.upper() if index else ""
            if before in ("WITH", "RECURSIVE", ","):
                names.add(token.text.strip("`").lower())
    return names


def _find_table(tokens: list[Token], index: int) -> str:
    """The name of the only table that a star stands over; "" where there are several, or something else."""
    depth = 0
    for position in range(index, len(tokens)):
        text = tokens[position].text.upper()
        depth += (text == "(") - (text == ")")
        if depth < 0:
            return ""
        if depth == 0 and text == "FROM" and position + 1 < len(tokens):
            after = tokens[position + 2].text if position + 2 < len(tokens) else ""
            return tokens[position + 1].text.strip("`").lower() if after not in (".", "(") else ""
    return ""


_ALL = (
    Rule("owner_required", require_owner, "a model says who answers for it"),
    Rule("description_required", require_description, "a model says what it is"),
    Rule("checks_required", require_checks, "a model has at least one check"),
    Rule("no_select_star", refuse_star, "columns are named; a star over a CTE is fine"),
    Rule("model_name", match_name, "names of models match a pattern", needs_pattern=True),
    Rule("column_name", match_columns, "names of columns match a pattern", needs_pattern=True),
    Rule("order_by_without_limit", refuse_order, "no ORDER BY that a table does not keep", "warning"),
    Rule("join_without_condition", refuse_open_joins, "a join has a condition, or says CROSS", "warning"),
)

RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
