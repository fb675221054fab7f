"""An object store that speaks S3, on loopback, for one test process."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import count
from typing import Any

from sqb.lake.storage.s3 import open_s3
from sqb.project.config.connections.lake_location import complete_s3_options


@dataclass
class Store:
    """A running server."""

    server: Any
    endpoint: str
    numbers: Any

    @property
    def options(self) -> dict[str, str]:
        """What a catalog's `options` say of it."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": "tester",
            "s3.secret-access-key": "s3cr3t-key",
        }

    def new_bucket(self) -> str:
        """A bucket that nobody has used."""
        name = f"test-{next(self.numbers)}"
        files = open_s3(complete_s3_options(self.options) | {"s3.allow-bucket-creation": "true"})
        files.create_dir(name)
        return name

    def stop(self) -> None:
        self.server.stop()


def start_store() -> Store:
    """Start a server that keeps everything in memory."""
    from moto.server import ThreadedMotoServer

    # It says a line for every request.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    return Store(server, f"http://127.0.0.1:{port}", count(1))
