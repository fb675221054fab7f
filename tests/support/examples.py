"""How many examples a property is tried with: all of them in `make test`, a tenth in the inner loop."""

from __future__ import annotations

import os

IS_FAST = os.environ.get("SQB_FAST_TESTS") == "1"


def count_examples(wanted: int, least: int = 3) -> int:
    """So many examples, or a tenth of them where a quick answer is wanted, but a few."""
    return max(least, wanted // 10) if IS_FAST else wanted
