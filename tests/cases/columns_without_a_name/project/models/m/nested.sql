SELECT * FROM (SELECT CAST(CAST(at AS DATE) AS STRING), upper(s), sum(d_id) AS total FROM raw.d GROUP BY ALL)
