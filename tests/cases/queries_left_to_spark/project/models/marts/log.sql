-- @kind: append
FROM all_of_it |> WHERE id !> 1 |> SELECT id
