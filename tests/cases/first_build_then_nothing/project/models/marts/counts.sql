MODEL (kind table);
SELECT count(*) AS people FROM staging.people
