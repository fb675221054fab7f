"""The way to a server of this machine that listens on 127.0.0.1 alone: the token goes to nobody else."""

from __future__ import annotations

import grpc  # type: ignore[import-untyped]
from pyspark.sql.connect.client.core import DefaultChannelBuilder


class Loopback(DefaultChannelBuilder):
    """An address `sc://127.0.0.1:port/;token=…`, spoken to without TLS.

    PySpark does so with `localhost` only, which is the address ::1 as well: there anybody of this machine may listen.
    """

    def toChannel(self) -> grpc.Channel:
        """A channel to that very address, not through a proxy."""
        self.setChannelOption("grpc.enable_http_proxy", 0)
        token = grpc.access_token_call_credentials(self.token)
        credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), token)
        return self._secure_channel(f"ipv4:{self.endpoint}", credentials)
