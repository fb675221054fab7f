"""A server that speaks Spark Connect and has no Spark: it says what a test lets it say, within milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


@contextmanager
def fake_server(version: str, conf: Mapping[str, str] | None = None, hangs: Collection[str] = ()) -> Iterator[str]:
    """A server of a version, with settings; its address. It gives no answer to the questions at which it hangs."""
    import grpc
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

    known = dict(conf or {})
    over = threading.Event()

    class Service(base_pb2_grpc.SparkConnectServiceServicer):
        def AnalyzePlan(self, request: Any, context: Any) -> Any:
            if request.WhichOneof("analyze") in hangs:
                over.wait()
            message = base_pb2.AnalyzePlanResponse.SparkVersion(version=version)
            return base_pb2.AnalyzePlanResponse(session_id=request.session_id, spark_version=message)

        def Config(self, request: Any, context: Any) -> Any:
            if request.operation.WhichOneof("op_type") in hangs:
                over.wait()
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
        over.set()
        server.stop(None)
