SELECT count(*) AS n, max(a.id) AS most FROM looks AS a
