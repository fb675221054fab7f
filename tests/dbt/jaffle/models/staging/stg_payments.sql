select
    id as payment_id,
    order_id,
    payment_method,
    -- `amount` is stored in cents
    {{ cents_to_dollars('amount') }} as amount,
    {{ initial_of('payment_method') }} as method_code
from {{ source('ecom', 'payments') }}
