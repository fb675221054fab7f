SELECT count(DISTINCT f) AS n FROM m.places
