-- ======
a line that fits stays one
select  a,b from t where a=1 ;
-- ------
SELECT a, b FROM t WHERE a = 1;
-- ======
clauses and lists
select a, b as c, count(*)
from t left join u on t.a=u.a and t.b>-1
where x in (1,2) group by 1,2 order by 1 desc nulls last limit 10
-- ------
SELECT a, b AS c, count(*)
FROM t
LEFT JOIN u ON t.a = u.a AND t.b > -1
WHERE x IN (1, 2)
GROUP BY 1, 2
ORDER BY 1 DESC NULLS LAST
LIMIT 10
-- ======
a list that its author broke stays broken
select a,
  b, c
from t
where a = 1
  and b = 2 or c between 1 and 2
-- ------
SELECT
  a,
  b,
  c
FROM t
WHERE
  a = 1
  AND b = 2
  OR c BETWEEN 1 AND 2
-- ======
common table expressions
with a as (select 1 as x), b as (
select * from a) select * from b union all select * from a
-- ------
WITH a AS (SELECT 1 AS x),

b AS (
  SELECT * FROM a
)

SELECT *
FROM b
UNION ALL
SELECT *
FROM a
-- ======
comments stay where they are
-- above
select a, -- the a
  /* b */ b
  , c -- the c
  -- below
from t -- the table
where x /* here */ = 1
-- the end
-- ------
-- above
SELECT
  a, -- the a
  /* b */ b,
  c -- the c
-- below
FROM t -- the table
WHERE x /* here */ = 1
-- the end
-- ======
what is too long is opened
select case when a_long_condition_of_a_column = 1 then 'something' when another_condition_of_it = 2 then 'other' else 'rest' end as label,
  row_number() over (partition by some_long_column_name, another_long_column_name order by updated_at desc) as position from t
-- ------
SELECT
  CASE
    WHEN a_long_condition_of_a_column = 1 THEN 'something'
    WHEN another_condition_of_it = 2 THEN 'other'
    ELSE 'rest'
  END AS label,
  row_number() OVER (
    PARTITION BY some_long_column_name, another_long_column_name
    ORDER BY updated_at DESC
  ) AS position
FROM t
-- ======
functions and types keep their case
select Coalesce(a, 0), filter(xs, x -> x > 0), count(*) filter (where a), date '2020-01-01', cast(a as decimal(10,2)), if(a, b, c) from t
-- ------
SELECT
  Coalesce(a, 0),
  filter(xs, x -> x > 0),
  count(*) FILTER (WHERE a),
  date '2020-01-01',
  cast(a AS decimal(10, 2)),
  if(a, b, c)
FROM t
