SELECT n FROM raw.log UNION ALL SELECT length(word) FROM raw.words
