-- Reads the view of everything, of which it takes one column.
SELECT DISTINCT customer FROM shown
