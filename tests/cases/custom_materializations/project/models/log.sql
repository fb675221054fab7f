MODEL (kind custom, materialization kept_log, constraints [not_null(name)], table_properties {team: data});
SELECT id, name FROM people
