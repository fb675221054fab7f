SELECT @@country AS country, '@@country' AS word
