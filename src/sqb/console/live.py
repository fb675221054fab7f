"""Where a build's events go: plain lines anywhere, and a moving last line on a terminal."""

from __future__ import annotations

import threading
import time
from typing import Any, TextIO

from sqb.build.events import (
    Event,
    NodeDone,
    NodeSaid,
    NodeStarted,
    NodeWaiting,
    Notice,
    PhaseStarted,
    Progress,
    SparkStarted,
    UnitTestDone,
    UnitTestsDone,
)
from sqb.console.lines import (
    MAX_NODES,
    format_abandoned,
    format_blocked,
    format_done,
    format_spark_start,
    format_test,
    format_tests,
)
from sqb.console.style import Paint, is_colour_enabled
from sqb.plan.model import Reason


class Listener:
    """Prints what happens as it happens; what was skipped from the start is left to the end."""

    def __init__(
        self,
        stream: TextIO,
        total: int,
        quiet_skips: bool = True,
        every_test: bool = False,
        verbose: bool = False,
    ) -> None:
        self.stream, self.total, self.quiet_skips, self.every_test = stream, total, quiet_skips, every_test
        self.verbose = verbose
        self.paint = Paint(stream)
        self.done = 0
        self.running: dict[str, float] = {}
        self.waiting: set[str] = set()
        self.waiting_for = ""
        self.phase = ""
        self.reason_to_wait = "starting Spark"
        self.stopping = False
        self.abandoned: list[NodeDone] = []
        # Nodes below others that failed.
        self.blocked = 0
        self._lock = threading.Lock()
        self._live: Any = None

    def __enter__(self) -> Listener:
        if self.total and self.stream.isatty() and is_colour_enabled(self.stream):
            from rich.console import Console  # only a terminal is worth its import time
            from rich.live import Live

            console = Console(file=self.stream, highlight=False)
            self._live = Live(
                get_renderable=self._render,
                console=console,
                refresh_per_second=8,
                transient=True,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        for line in format_abandoned(self.abandoned, self.paint):
            self._print_line(line)
        if not self.verbose and self.blocked > MAX_NODES:
            self._print_line(format_blocked(self.blocked - MAX_NODES, self.paint))

    def _print_blocked(self, event: NodeDone) -> None:
        """One line for each of the first; the others are counted at the end."""
        self.blocked += 1
        if self.verbose or self.blocked <= MAX_NODES:
            self._print_line(format_done(event, self.paint))

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case NodeWaiting(name=name):
                    self.waiting.add(name)
                    self.running.pop(name, None)
                case NodeStarted(name=name):
                    self.waiting.discard(name)
                    self.running[name] = time.monotonic()
                case NodeDone(planned=planned, status=status):
                    self.running.pop(planned.name, None)
                    self.waiting.discard(planned.name)
                    if planned.action == "run":
                        self.done += 1
                    if status == "blocked" and planned.action == "run" and planned.reason != Reason.UPSTREAM_FAILED:
                        # Not begun when the build was stopped: printed at the end, in one line when there are many.
                        self.abandoned.append(event)
                    elif status == "blocked" and planned.reason == Reason.UPSTREAM_FAILED:
                        self._print_blocked(event)
                    elif status != "skipped" or planned.action == "run":
                        self._print_line(format_done(event, self.paint))
                case UnitTestDone(status=status):
                    if self.every_test:
                        self.done += 1
                    if self.every_test or status == "failed":
                        self._print_line(format_test(event, self.paint))
                case UnitTestsDone():
                    if not self.every_test:
                        self._print_line(format_tests(event, self.paint))
                case SparkStarted():
                    self.waiting_for = self.phase = self.reason_to_wait = ""
                    self._print_line(format_spark_start(event, self.paint))
                case PhaseStarted(text=text):
                    self.phase = text
                case Progress(text=text):
                    self.waiting_for = text
                    if self._live is None and text:
                        self._print_line(text)
                case NodeSaid(text=text):
                    self._print_line(self.paint(text, "dim"))
                case Notice(text=text):
                    self._print_line(self.paint(f"note: {text}", "yellow"))

    def _print_line(self, text: str) -> None:
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text.from_ansi(text), soft_wrap=True)
        else:
            self.stream.write(text + "\n")
            self.stream.flush()

    def _render(self) -> Any:
        from rich.text import Text

        now = time.monotonic()
        spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(now * 8) % 10]
        what = [f"{name} {now - since:.0f}s" for name, since in list(self.running.items())[:4]]
        if len(self.running) > 4:
            what.append(f"{len(self.running) - 4} more")
        if self.stopping:
            what = ["stopping; Ctrl-C again does not wait", *what]
        elif pending := self.waiting_for or self.phase or (self.reason_to_wait if self.waiting else ""):
            what.insert(0, pending)
        text = ", ".join(what) or "working"
        return Text(f"{spinner} {self.done}/{self.total}  {text}", no_wrap=True, overflow="ellipsis", style="dim")
