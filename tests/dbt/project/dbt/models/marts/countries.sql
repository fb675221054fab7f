select code, name from {{ source('sqb', 'countries') }}
