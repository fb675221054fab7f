"""What went wrong with a node, in words for its author: the model's file and place, not Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqb.compile.model import Node, locate_source
from sqb.errors.base import InternalError, SqbError
from sqb.errors.build import BuildError, QueryFailed
from sqb.errors.connections import SparkDisconnected
from sqb.errors.lake import LakeError, LakeFull, LakeUnreadable, UnsupportedType
from sqb.errors.spark import SparkLost
from sqb.names import At
from sqb.project.config.secrets import hide_known
from sqb.sql.text.spans import find_piece

if TYPE_CHECKING:
    from sqb.build.node.context import NodeContext
    from sqb.build.node.render import Rendered
    from sqb.build.spark_engine import LazyEngine


_KINDS: dict[str, type[SqbError]] = {
    "lost": SparkLost,
    "disk_full": LakeFull,
    "denied": LakeUnreadable,
    "catalog_locked": LakeError,
}


def explain_error(error: BaseException, context: NodeContext | None, root: Path, engine: LazyEngine) -> SqbError:
    """The error as one of ours, with the place in the model's file where Spark says one."""
    if isinstance(error, SqbError):
        if error.at is None and context is not None and isinstance(error, BuildError | UnsupportedType):
            error.at = _get_node_place(context.node)
        return prefer_spark_loss(error, engine)
    if not engine.started or engine.failed is not None:
        return _build_internal_error(error)
    rendered = context.render_query() if context is not None and context.node.sql else None
    explanation = convert_spark_error(error, context.node if context else None, rendered, root)
    return prefer_spark_loss(explanation, engine)


def prefer_spark_loss(error: SqbError, engine: LazyEngine) -> SqbError:
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


def _get_node_place(node: Node) -> At:
    """The place of a node as a whole: its file, or the function of a Python model."""
    return At(*node.python["at"]) if node.python else At(node.file)


def convert_spark_error(error: BaseException, node: Node | None, rendered: Rendered | None, root: Path) -> SqbError:
    """An error of Spark's in the query of a node as one of ours, with the place in the node's file."""
    if not _is_spark_error(error):
        return _build_internal_error(error)
    from sqb.spark.errors import explain_failure  # Spark is there, or this would not have failed

    failure = explain_failure(error, rendered.sql if rendered else "")
    kind = _KINDS.get(failure.kind, QueryFailed)
    at = _get_node_place(node) if node else None
    if node is not None and rendered is not None and failure.start >= 0 and node.pieces:
        text = (root / node.file).read_text(encoding="utf-8-sig").replace("\r\n", "\n")
        at = locate_source(node, text, rendered.map_offset(failure.start), failure.stop - failure.start)
    message = failure.message
    if node is not None and rendered is not None and failure.start >= 0:
        inside = find_piece(node.pieces, rendered.map_offset(failure.start))
        message += f", in the function {inside.within}" if inside is not None and inside.within else ""
    result = kind(message, at=at, hint=failure.hint)
    result.__cause__ = error
    return result


def _build_internal_error(error: BaseException) -> InternalError:
    internal = InternalError(
        f"{type(error).__name__}: {hide_known(str(error))}",
        hint="this is a mistake in sqb; --debug shows where it happened",
    )
    internal.__cause__ = error
    return internal


def _is_spark_error(error: BaseException) -> bool:
    module = type(error).__module__
    return module.startswith(("pyspark", "py4j", "grpc")) or isinstance(error, ConnectionError)
