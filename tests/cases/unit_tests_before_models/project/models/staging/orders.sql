SELECT id, amount * 2 AS total FROM seeds.sales
