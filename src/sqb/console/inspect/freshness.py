"""The freshness of sources as a table."""

from __future__ import annotations

from collections.abc import Iterator

from sqb.console.lines import format_table
from sqb.operations.inspect.freshness import Freshness, format_utc
from sqb.plan.freshness import RecordedFreshness, SourceFreshness

_HEADER = ("source", "strategy", "version", "age", "last recorded", "status")


def format_freshness(result: Freshness, width: int | None = None) -> Iterator[str]:
    """The sources as they are, against what was last recorded of them."""
    if not result.names:
        yield "No sources."
        return
    yield from format_table(_HEADER, [_format_source(name, result) for name in result.names], width)


def _format_source(name: str, result: Freshness) -> tuple[str, ...]:
    source = result.seen.get(name)
    if source is None:
        return (name, "", "", "", "", "failed" if name in result.failed else "not observed")
    return (
        name,
        source.observation.strategy,
        _format_value(source.observation.kind, source.observation.value),
        source.age_text,
        _format_recorded(source.recorded, result.project.loaders.get(name)),
        _format_status(source),
    )


def _format_recorded(last: RecordedFreshness | None, loader: str | None) -> str:
    if last is None:
        return f"filled by {loader}" if loader is not None else "never"
    return f"{_format_value(last.kind, last.value)} at {format_utc(last.observed_at)}"


def _format_value(kind: str, value: str) -> str:
    match kind:
        case "timestamp":
            return value.replace("T", " ").replace("+00:00", "").removesuffix(".000000")
        case "listing":
            return f"files {value[:8]}"
        case _:
            return value


def _format_status(source: SourceFreshness) -> str:
    verdict = "within tolerance" if source.verdict == "tolerated" else source.verdict
    if source.is_too_old:
        return f"{verdict}, too old"
    return f"{verdict}, getting old" if source.has_warning else verdict
