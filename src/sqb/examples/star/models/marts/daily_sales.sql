-- @kind: incremental
-- @cursor: sold_on
-- @lookback: 2d
-- @description: Sales per day and store; each run computes the new days and the two before them
-- @tag: aggregate
-- @column: sold_on: The cursor
-- @column: revenue: In euros
-- @constraint: not_null(sold_on)
SELECT sold_on, store_id, count(*) AS sales, sum(amount) AS revenue
FROM fct_sales
GROUP BY sold_on, store_id
