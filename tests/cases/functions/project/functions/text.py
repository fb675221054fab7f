def initial(word: str) -> str:
    """The first letter."""
    return word[0].upper()
