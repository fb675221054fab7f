select * from {{ ref('totals') }} where total <= 0
