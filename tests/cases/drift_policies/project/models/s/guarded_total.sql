SELECT sum(amount) AS total FROM s.guarded
