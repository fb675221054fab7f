"""Lets other systems hear of a run, where they are set up; where none is, nothing of them is loaded."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqb.build.events import Event
    from sqb.build.result import BuildResult
    from sqb.build.state import BuildState
    from sqb.operations.build import ListenTo
    from sqb.operations.plan import PlannedWorkspace
    from sqb.operations.telemetry.channel import Channel
    from sqb.workspace import Workspace

_OPENLINEAGE_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_OTEL_VARIABLES = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)
OPENLINEAGE_FILE = "openlineage.yml"


class RunWatch:
    """A run that is watched: its events go to the listener, and to those who report them elsewhere."""

    def __init__(self, listen: Callable[[Event], None]) -> None:
        self._listen = listen
        self.channels: list[Channel] = []
        self.result: BuildResult | None = None
        # The tables as the build knows them now, once it has begun.
        self.state: BuildState | None = None

    @property
    def listen(self) -> Callable[[Event], None]:
        """Who hears of the run."""
        return self._forward if self.channels else self._listen

    def _forward(self, event: Event) -> None:
        self._listen(event)
        for channel in self.channels:
            channel.put(event)


@contextmanager
def watch_run(planned: PlannedWorkspace, listen: Callable[[Event], None]) -> Iterator[RunWatch]:
    """Report a run to whom it is to be reported, until it ends; what cannot be sent becomes a notice."""
    watch = RunWatch(listen)
    names = list_asked(planned.workspace)
    if not names:
        yield watch
        return
    from sqb.build.events import Notice
    from sqb.operations.telemetry.channel import RunEnd

    for name in names:
        if missing := _find_missing_package(name):
            listen(Notice(missing))
        else:
            watch.channels.append(_OPENERS[name](planned, watch))
    raised: BaseException | None = None
    try:
        yield watch
    except BaseException as error:
        raised = error
        raise
    finally:
        for channel in watch.channels:
            channel.put(RunEnd(watch.result, raised))
        for channel in watch.channels:
            if problem := channel.close():
                listen(Notice(problem))


def report_empty_run(planned: PlannedWorkspace, result: BuildResult, listen_to: ListenTo) -> None:
    """Report a run in which nothing had to run."""
    if list_asked(planned.workspace):
        stop = planned.spark.stop_requested
        with listen_to(0, stop) as listen, watch_run(planned, listen) as watch:
            watch.result = result


def list_asked(workspace: Workspace) -> list[str]:
    """Who is to hear of runs: by settings, by variables and by files, as their users know them."""
    return [
        *(["openlineage"] if _is_openlineage_asked(workspace) else []),
        *(["otel"] if _is_otel_asked() else []),
    ]


def _is_openlineage_asked(workspace: Workspace) -> bool:
    settings = workspace.openlineage
    if settings.enabled is not None:
        return settings.enabled and not _is_true("OPENLINEAGE_DISABLED")
    if _is_true("OPENLINEAGE_DISABLED"):
        return False
    if settings.url or settings.file or any(map(os.environ.get, _OPENLINEAGE_VARIABLES)):
        return True
    if any(name.startswith("OPENLINEAGE__TRANSPORT__") for name in os.environ):
        return True
    return find_client_file(workspace.root) is not None


def find_client_file(root: Path) -> Path | None:
    """The client's own file of settings: beside the project, where the command was called, or in the home folder."""
    folders = (root, Path.cwd(), Path(os.path.expanduser("~/.openlineage")))
    return next((path for folder in folders if (path := folder / OPENLINEAGE_FILE).is_file()), None)


def _is_otel_asked() -> bool:
    if _is_true("OTEL_SDK_DISABLED") or os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(map(os.environ.get, _OTEL_VARIABLES)) or get_callers_provider() is not None


def get_callers_provider() -> Any:
    """The provider of traces that the calling process has set up by itself; None where there is none."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    provider = api.get_tracer_provider()
    return None if isinstance(provider, api.ProxyTracerProvider) else provider


def _is_true(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() == "true"


def _find_missing_package(name: str) -> str:
    """What to install for it, in words; nothing where it is there."""
    title, package, module = _PACKAGES[name]
    top = module.partition(".")[0]
    if importlib.util.find_spec(top) is not None and importlib.util.find_spec(module) is not None:
        return ""
    return f"{title} is set up, and the package {package} is not installed: pip install 'sqb-spark[{name}]'"


_PACKAGES = {
    "openlineage": ("OpenLineage", "openlineage-python", "openlineage.client"),
    "otel": ("OpenTelemetry", "opentelemetry-sdk", "opentelemetry.sdk"),
}


def _open_openlineage(planned: PlannedWorkspace, watch: RunWatch) -> Channel:
    from sqb.operations.telemetry.channel import Channel, Reporter

    def open_reporter() -> Reporter:
        from sqb.operations.telemetry.openlineage.reporter import open_lineage_reporter

        return open_lineage_reporter(planned, watch)

    return Channel("OpenLineage", open_reporter, ("openlineage", "urllib3", "requests"))


def _open_otel(planned: PlannedWorkspace, watch: RunWatch) -> Channel:
    from sqb.operations.telemetry.channel import Channel, Reporter
    from sqb.operations.telemetry.traces import find_parent, open_trace_reporter

    parent = find_parent()  # the caller's span is that of the caller's thread

    def open_reporter() -> Reporter:
        return open_trace_reporter(planned, parent)

    return Channel("OpenTelemetry", open_reporter, ("opentelemetry", "urllib3", "requests"))


_OPENERS: dict[str, Callable[[PlannedWorkspace, RunWatch], Channel]] = {
    "openlineage": _open_openlineage,
    "otel": _open_otel,
}
