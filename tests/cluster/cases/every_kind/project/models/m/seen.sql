-- @kind: view
SELECT letter, amount FROM letters
