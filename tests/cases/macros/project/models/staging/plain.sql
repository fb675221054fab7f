SELECT '@cents(price)' AS text -- @cents(nothing)
