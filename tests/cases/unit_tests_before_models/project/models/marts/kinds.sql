SELECT kind, count(*) AS events FROM staging.events GROUP BY kind
