CREATE FUNCTION label(amount DECIMAL(10,2)) RETURNS STRING RETURN concat('net ', net(amount))
