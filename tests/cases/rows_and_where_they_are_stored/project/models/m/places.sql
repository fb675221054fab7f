SELECT id, _file AS f, _pos AS p FROM raw.t
