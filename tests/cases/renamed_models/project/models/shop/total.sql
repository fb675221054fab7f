SELECT sum(twice) AS total FROM doubled
