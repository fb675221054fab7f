"""A server that speaks Spark Connect and has no Spark: it says what a test lets it say, within milliseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


@contextmanager
def fake_server(version: str, conf: Mapping[str, str] | None = None) -> Iterator[str]:
    """A server of a version, with settings; its address."""
    import grpc
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

    known = dict(conf or {})

    class Service(base_pb2_grpc.SparkConnectServiceServicer):
        def AnalyzePlan(self, request: Any, context: Any) -> Any:
            said = base_pb2.AnalyzePlanResponse.SparkVersion(version=version)
            return base_pb2.AnalyzePlanResponse(session_id=request.session_id, spark_version=said)

        def Config(self, request: Any, context: Any) -> Any:
            answer = base_pb2.ConfigResponse(session_id=request.session_id)
            for pair in request.operation.get_with_default.pairs:
                answer.pairs.add(key=pair.key, value=known.get(pair.key, pair.value))
            return answer

    server = grpc.server(ThreadPoolExecutor(4))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop(None)
