-- @kind: table
-- @description: Customers with tidy names; e-mail and city stay empty where they are unknown
-- @tags: [staging]

SELECT
  id AS customer_id,
  concat_ws(' ', trim(first_name), trim(last_name)) AS customer_name,
  lower(trim(email)) AS email,
  trim(city) AS city,
  upper(country) AS country,
  signed_up_on
FROM customers
