def cents(amount):
    return f"{amount} / 100"
