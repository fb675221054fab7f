"""One sentence for every key of a model, and for the kinds: what editors show beside them."""

from __future__ import annotations

from collections.abc import Mapping

KEY_TEXTS: Mapping[str, str] = {
    "kind": "How sqb materialises the model.",
    "unique_key": "The columns that identify a row; for merge, scd2 and incremental.",
    "group_key": "The columns that form a group; for tracked.",
    "cursor": "The column that shows how far an incremental model has progressed.",
    "cursor_type": "The type of the cursor.",
    "cursor_start": "Where the first run starts.",
    "cursor_grain": "What is added to the largest value to get the end of a window.",
    "lookback": "How far before the table's largest value a window starts.",
    "incremental_strategy": "How the rows of a window are written to the table.",
    "replay_on_change": "What is computed again when a definition changed: forward, bounded-<duration> or full.",
    "on_schema_change": "What becomes of the table's columns when those of the query change.",
    "run_despite_unchanged": "Run even though nothing changed: always, or after a duration.",
    "refresh": "Following changes: when it pays (auto), wherever it is possible (incremental), or never (full).",
    "aggregate_state": "Whether sqb may keep the figures of groups beside the table.",
    "on_source_delete": "Whether rows that leave the result leave the table; for merge.",
    "lookups": "Tables that the query uses only as lookups; for append.",
    "on_drift": "What to do about a table that another tool changed.",
    "partitioned_by": "The table's partitions, such as months(order_date) or bucket(16, id).",
    "sorted_by": "The table's sort order.",
    "tags": "Names for selectors: tag:finance.",
    "description": "The comment of the table or view in the catalog.",
    "columns": "Names of columns with their descriptions: comments in the catalog.",
    "constraints": "Checks that must hold before readers see the rows.",
    "audits": "Checks of the table as it would be; they must hold before readers see the rows.",
    "warnings": "Checks that only warn.",
    "pre_hooks": "SQL statements that run before the model.",
    "post_hooks": "SQL statements that run after the model.",
    "contract": "The columns with types that the result must have.",
    "materialization": "The function of your own that builds the model; for custom.",
    "config": "Values of your own, stored with the model.",
    "schema": "The schema of the relation, instead of the target's.",
    "alias": "The name of the relation, instead of the file's.",
    "table_properties": "Iceberg table properties.",
    "enabled": "false leaves the model out.",
    "renamed_from": "What the model was called before: its table is renamed, and nothing is built again.",
    "owner": "Who answers for the model.",
    "group": "The group that the model belongs to.",
}

KIND_TEXTS: Mapping[str, str] = {
    "table": "The query's result.",
    "view": "The query itself.",
    "merge": "The query's result, with a key that is unique.",
    "tracked": "The query's result in groups; only files with changed groups are written again.",
    "append": "A log: new rows are added, none is removed.",
    "scd2": "History: rows with valid_from, valid_to and is_current.",
    "incremental": "A history that is built window by window of a cursor.",
    "custom": "Whatever a function of your own writes.",
}
