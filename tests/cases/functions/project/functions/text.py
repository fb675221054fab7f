from _letters import first


def initial(word: str) -> str:
    """The first letter."""
    return first(word).upper()
