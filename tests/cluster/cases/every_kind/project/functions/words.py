def initial(name: str) -> str:
    return name[0].upper()
