"""Whether something listens at an address of the network. Does not load Spark."""

from __future__ import annotations

import socket

_SECONDS_TO_REACH = 5.0


def problem_of(host: str, port: int) -> str:
    """What keeps an address from being reached, in the words of the operating system; "" when it can be."""
    try:
        socket.create_connection((host, port), _SECONDS_TO_REACH).close()
    except OSError as error:
        return (error.strerror or str(error) or type(error).__name__).lower()
    return ""
