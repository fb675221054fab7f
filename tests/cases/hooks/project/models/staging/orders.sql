MODEL (
  pre_hooks [
    "INSERT INTO raw.log SELECT 'before', count(*) FROM raw.orders",
    SET spark.sql.shuffle.partitions = 3,
  ],
  post_hooks [
    'INSERT INTO raw.log SELECT concat(\'after \', @@who), count(*) FROM @@this',
    SELECT assert_true(count(*) < 5) FROM staging.orders,
  ],
);
SELECT id, amount FROM raw.orders
