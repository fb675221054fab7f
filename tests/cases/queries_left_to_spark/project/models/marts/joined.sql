-- @kind: merge
-- @unique_key: word

FROM staging.piped
|> JOIN fixed ON staging.piped.id = fixed.col1
|> SELECT fixed.col2 AS word, piped.amount
