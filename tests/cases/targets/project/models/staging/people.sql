SELECT id FROM persons
