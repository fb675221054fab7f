SELECT _file AS f, count(*) AS n FROM raw.t GROUP BY _file
