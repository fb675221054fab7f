SELECT d_id % 3, posexplode(split(s, '')) FROM raw.d
