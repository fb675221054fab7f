CREATE FUNCTION rate_of(country STRING) RETURNS DOUBLE
RETURN (SELECT max(rate) FROM rates WHERE rates.country = rate_of.country)
