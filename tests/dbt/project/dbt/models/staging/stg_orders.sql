select id, customer, {{ cents('amount') }} as cents from {{ ref('raw_orders') }}
