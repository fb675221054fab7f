SELECT word FROM raw.words
