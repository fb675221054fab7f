"""PySpark's own loggers: what they have to say is said by errors, in words for people."""

from __future__ import annotations

import logging
import os
import warnings

_CHATTY_LOGGERS = ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger")


def silence_loggers() -> None:
    """Let nothing that PySpark logs reach the terminal."""
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_py4j)
    # Of Spark Connect: the library beneath it, and a server that was asked in vain.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    warnings.filterwarnings("ignore", message=r".*\[RETRIES_EXCEEDED\]")


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Py4J reports lost connections to the root logger, which only the application should silence."""
    return record.module not in ("clientserver", "java_gateway")
