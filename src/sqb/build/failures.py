"""What went wrong with a node, in words for its author: the model's file and place, not Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqb.compiled import Node, source_place
from sqb.errors import (
    BuildError,
    InternalError,
    LakeError,
    LakeFull,
    LakeUnreadable,
    QueryFailed,
    SparkLost,
    SqbError,
    UnsupportedType,
)
from sqb.errors_connections import SparkDisconnected
from sqb.names import At
from sqb.project.secrets import hide_known
from sqb.sql.spans import piece_at

if TYPE_CHECKING:
    from sqb.build.engine import LazyEngine
    from sqb.build.render import Rendered
    from sqb.build.turn import Turn


_KINDS: dict[str, type[SqbError]] = {
    "lost": SparkLost,
    "disk_full": LakeFull,
    "denied": LakeUnreadable,
    "catalog_locked": LakeError,
}


def explained(error: BaseException, turn: Turn | None, root: Path, engine: LazyEngine) -> SqbError:
    """The error as one of ours, with the place in the model's file where Spark says one."""
    if isinstance(error, SqbError):
        if error.at is None and turn is not None and isinstance(error, BuildError | UnsupportedType):
            error.at = _whole(turn.node)
        return or_loss(error, engine)
    if not engine.started or engine.failed is not None:
        return _mistake(error)
    rendered = turn.query() if turn is not None and turn.node.sql else None
    found = spark_error(error, turn.node if turn else None, rendered, root)
    return or_loss(found, engine)


def or_loss(error: SqbError, engine: LazyEngine) -> SqbError:
    """What is known of a Spark that went away, where a node failed for that reason; else the error itself."""
    if isinstance(error, SparkDisconnected):
        return error
    # What was cancelled because Spark is gone failed for that reason, and so did calls that were given up.
    cut_off = isinstance(error, QueryFailed | InternalError) and engine.gone
    loss = engine.loss() if isinstance(error, SparkLost) or cut_off else None
    if loss is None:
        return error
    loss.at, loss.__cause__ = error.at, error.__cause__ or error
    return loss


def _whole(node: Node) -> At:
    """The place of a node as a whole: its file, or the function of a Python model."""
    return At(*node.python["at"]) if node.python else At(node.file)


def spark_error(error: BaseException, node: Node | None, rendered: Rendered | None, root: Path) -> SqbError:
    """An error of Spark's in the query of a node as one of ours, with the place in the node's file."""
    if not _from_spark(error):
        return _mistake(error)
    from sqb.spark.failures import explain  # Spark is there, or this would not have failed

    failure = explain(error, rendered.sql if rendered else "")
    kind = _KINDS.get(failure.kind, QueryFailed)
    at = _whole(node) if node else None
    if node is not None and rendered is not None and failure.start >= 0 and node.pieces:
        text = (root / node.file).read_text(encoding="utf-8-sig").replace("\r\n", "\n")
        at = source_place(node, text, rendered.origin(failure.start), failure.stop - failure.start)
    message = failure.message
    if node is not None and rendered is not None and failure.start >= 0:
        inside = piece_at(node.pieces, rendered.origin(failure.start))
        message += f", in the function {inside.within}" if inside is not None and inside.within else ""
    result = kind(message, at=at, hint=failure.hint)
    result.__cause__ = error
    return result


def _mistake(error: BaseException) -> InternalError:
    found = InternalError(
        f"{type(error).__name__}: {hide_known(str(error))}",
        hint="this is a mistake in sqb; --debug shows where it happened",
    )
    found.__cause__ = error
    return found


def _from_spark(error: BaseException) -> bool:
    module = type(error).__module__
    return module.startswith(("pyspark", "py4j", "grpc")) or isinstance(error, ConnectionError)
