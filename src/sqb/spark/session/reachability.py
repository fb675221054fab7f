"""The masters of a standalone cluster: whether one of them can be reached. Does not load Spark.

Spark itself tries for more than a minute, and goes on waiting when a cluster is gone in the middle of the work.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sqb.errors.connections import SparkDisconnected, SparkUnreachable
from sqb.spark.session.heartbeat import Heartbeat

_SCHEME = "spark://"
_DEFAULT_PORT = 7077


def is_standalone(master: str) -> bool:
    """Whether a master is one or more of a standalone cluster."""
    return master.startswith(_SCHEME)


def refuse_unreachable(connection: str, master: str) -> None:
    """Refuse a standalone cluster of which no master can be reached."""
    problems = _find_problems(master)
    if problems:
        raise SparkUnreachable(
            f"the Spark cluster {master} of the connection {connection} does not answer: {problems[0]}",
            hint="check that its master runs, that host and port are right, and that the network lets them through",
        )


def check_masters(master: str) -> None:
    """See that one of the masters can be reached; raises when none can."""
    if _find_problems(master):
        raise ConnectionError(master)


def start_heartbeat(master: str, cancel: Callable[[], None]) -> Heartbeat:
    """Cancel what runs when no master can be reached any more: Spark itself would wait for ever.

    Who prepared a job when the others were cancelled submits it later: it goes on until the watch is ended. A master
    that restarts, or a name that is not found once, does not mean that the cluster is gone.
    """
    return Heartbeat(lambda: check_masters(master), cancel, is_error_final=False, repeats=True)


def build_lost_cluster_error(connection: str, master: str) -> SparkDisconnected:
    """The message when the cluster was there and is gone."""
    return SparkDisconnected(
        f"the connection {connection} to the Spark cluster {master} broke in the middle of the work",
        hint="check that the cluster still runs and can be reached; then build again: only what is missing runs",
    )


def _find_problems(master: str) -> list[str]:
    """What keeps the masters from being reached; nothing as soon as one of them can be."""
    addresses = [_parse_address(text) for text in master.removeprefix(_SCHEME).split(",")]
    with ThreadPoolExecutor(len(addresses)) as pool:
        problems = list(pool.map(lambda address: find_connection_problem(*address), addresses))
    return [] if "" in problems else problems


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not port.isdigit():
        return text.strip(), _DEFAULT_PORT
    return host.strip("[]"), int(port)


_SECONDS_TO_REACH = 5.0


def find_connection_problem(host: str, port: int) -> str:
    """What keeps an address from being reached, in the words of the operating system; "" when it can be."""
    try:
        socket.create_connection((host, port), _SECONDS_TO_REACH).close()
    except OSError as error:
        return (error.strerror or str(error) or type(error).__name__).lower()
    return ""
