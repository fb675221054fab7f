MODEL (
  contract (id int not null, amount decimal(10, 2), tags array<string>),
);
SELECT id, CAST(amount AS DECIMAL(10, 2)) AS amount, array('a') AS tags FROM raw.orders
