SELECT sum(amt) AS total FROM stg
