from pathlib import Path

FIRST = Path(__file__).parent.parent / "first.txt"


def pages(count):
    first = int(FIRST.read_text()) if FIRST.exists() else 1
    return range(first, first + count)
