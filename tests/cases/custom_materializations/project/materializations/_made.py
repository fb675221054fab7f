def made(relation, sql):
    return f"CREATE OR REPLACE TABLE {relation} USING iceberg AS {sql}"
