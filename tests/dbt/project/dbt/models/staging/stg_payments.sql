select id, paid from {{ source('raw', 'payments') }}
