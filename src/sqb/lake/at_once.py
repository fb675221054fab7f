"""Many questions asked side by side, where each is answered by a machine far away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def at_once(ask: Callable[[Asked], Answer], many: Iterable[Asked], most: int) -> list[Answer]:
    """The answers in the order of the questions, of which at most so many are asked at a time."""
    questions = list(many)
    if most < 2 or len(questions) < 2:
        return [ask(one) for one in questions]
    from concurrent.futures import ThreadPoolExecutor  # local files are quicker one by one

    with ThreadPoolExecutor(most) as pool:
        return list(pool.map(ask, questions))
