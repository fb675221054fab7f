"""Macros about money: each takes SQL text and returns SQL text."""


def cents_to_euros(amount: str) -> str:
    """An amount in whole cents as euros, exact to the cent."""
    return f"CAST(CAST({amount} AS DECIMAL(12, 0)) / 100 AS DECIMAL(10, 2))"
