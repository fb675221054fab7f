-- @refresh: incremental
SELECT date(e.at) AS day, lower(e.who) AS who, count(*) AS n
FROM raw.events AS e
GROUP BY date(e.at), lower(e.who)
