"""The masters of a standalone cluster: whether one of them can be reached. Does not load Spark.

Spark itself tries for more than a minute, and goes on waiting when a cluster is gone in the middle of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sqb.errors_connections import SparkDisconnected, SparkUnreachable
from sqb.spark.reaching import problem_of
from sqb.spark.watch import Watch

_SCHEME = "spark://"
_DEFAULT_PORT = 7077


def is_standalone(master: str) -> bool:
    """Whether a master is one or more of a standalone cluster."""
    return master.startswith(_SCHEME)


def refuse_unreachable(connection: str, master: str) -> None:
    """Refuse a standalone cluster of which no master can be reached."""
    problems = _problems(master)
    if problems:
        raise SparkUnreachable(
            f"the Spark cluster {master} of the connection {connection} does not answer: {problems[0]}",
            hint="check that its master runs, that host and port are right, and that the network lets them through",
        )


def ask_masters(master: str) -> None:
    """See that one of the masters can be reached; raises when none can."""
    if _problems(master):
        raise ConnectionError(master)


def watch_masters(master: str, cancel: Callable[[], None]) -> Watch:
    """Cancel what runs when no master can be reached any more: Spark itself would wait for ever.

    Who prepared a job when the others were cancelled submits it later: it goes on until the watch is ended. A master
    that restarts, or a name that is not found once, is no cluster that is gone.
    """
    return Watch(lambda: ask_masters(master), cancel, final=False, repeats=True)


def lost_cluster(connection: str, master: str) -> SparkDisconnected:
    """What is said when the cluster was there and is gone."""
    return SparkDisconnected(
        f"the connection {connection} to the Spark cluster {master} broke in the middle of the work",
        hint="check that the cluster still runs and can be reached; then build again: only what is missing runs",
    )


def _problems(master: str) -> list[str]:
    """What keeps the masters from being reached; nothing as soon as one of them can be."""
    addresses = [_address(text) for text in master.removeprefix(_SCHEME).split(",")]
    with ThreadPoolExecutor(len(addresses)) as pool:
        found = list(pool.map(lambda address: problem_of(*address), addresses))
    return [] if "" in found else found


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not port.isdigit():
        return text.strip(), _DEFAULT_PORT
    return host.strip("[]"), int(port)
