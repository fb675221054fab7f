SELECT max(total) AS best FROM shown
