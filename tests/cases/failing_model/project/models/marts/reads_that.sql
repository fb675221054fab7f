SELECT name FROM marts.reads_bad
