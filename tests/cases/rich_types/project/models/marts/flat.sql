SELECT id, who.name AS name, tags[0] AS tag, sizes['s'] AS small FROM staging.things
