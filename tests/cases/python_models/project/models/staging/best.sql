SELECT max(score) AS best FROM marts.scores
