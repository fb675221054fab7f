SELECT customer FROM __dbt_ref("totals") WHERE total > 1000
