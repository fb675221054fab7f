"""The rules by which changes are followed, one module each, in the order in which they are tried."""

from __future__ import annotations

from sqb.sql.delta.rules import add_up, compare, distinct_rows, join_rows, touch_groups, touch_partitions, union_rows
from sqb.sql.delta.rules import read_table as read_table
from sqb.sql.delta.rules.base import Rule

RULES: tuple[Rule, ...] = (
    read_table.RULE,
    union_rows.RULE,
    distinct_rows.RULE,
    join_rows.RULE,
    add_up.RULE,
    touch_groups.RULE,
    touch_partitions.RULE,
    compare.RULE,
)
RULES_BY_NAME = {rule.name: rule for rule in RULES}
