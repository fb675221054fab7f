-- Without tax.
CREATE FUNCTION net(amount DECIMAL(10,2), rate DOUBLE DEFAULT 0.19)
RETURNS DECIMAL(10,2)
RETURN amount / (1 + rate)
