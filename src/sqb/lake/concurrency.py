"""Calls that wait for another machine, made concurrently."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def map_concurrently(
    function: Callable[[Argument], Result], items: Iterable[Argument], max_workers: int
) -> list[Result]:
    """Call a function with each item, at most `max_workers` at a time; the results are in the order of the items."""
    arguments = list(items)
    if max_workers < 2 or len(arguments) < 2:
        return [function(argument) for argument in arguments]
    from concurrent.futures import ThreadPoolExecutor  # local files are read faster one by one

    with ThreadPoolExecutor(max_workers) as pool:
        return list(pool.map(function, arguments))
