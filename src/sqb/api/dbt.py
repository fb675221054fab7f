"""The dbt project beside a project, as Python programs work with it: `project.dbt`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

from sqb.api.listener import EventForwarder, StopEvent
from sqb.api.options import Caller, DbtKeywords, parse_options
from sqb.build.result import generate_run_id
from sqb.build.spark_engine import OnDemandSpark
from sqb.operations.dbt.call import DbtCommandOptions
from sqb.operations.dbt.commands import compile_dbt_project, plan_dbt_project, run_dbt_project
from sqb.operations.dbt.listener import DbtListener
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.operations.build import ListenTo


class Dbt:
    """The commands of `sqb dbt`; each returns what it prints with --json.

    Nodes that fail do not raise. What dbt prints goes to a file in `.sqb/logs`.
    """

    def __init__(self, root: Path, target: str | None, caller: Caller) -> None:
        self._root, self._target, self._caller = root, target, caller

    def plan(self, **options: Unpack[DbtKeywords]) -> dict[str, Any]:
        """What `build` would let dbt run, and why. Starts no Java."""
        with self._listen() as listener:
            return plan_dbt_project(self._root, self._parse("plan", options), listener).to_data()

    def build(self, **options: Unpack[DbtKeywords]) -> dict[str, Any]:
        """Let dbt build what changed: models, seeds, snapshots and tests; and sqb the models around that."""
        return self._run("build", options)

    def run(self, **options: Unpack[DbtKeywords]) -> dict[str, Any]:
        """Let dbt run the models that changed, and sqb build the models around that."""
        return self._run("run", options)

    def test(self, **options: Unpack[DbtKeywords]) -> dict[str, Any]:
        """Let dbt run the selected tests, also those that have passed."""
        return self._run("test", options)

    def seed(self, **options: Unpack[DbtKeywords]) -> dict[str, Any]:
        """Let dbt load the seeds that changed."""
        return self._run("seed", options)

    def snapshot(self, **options: Unpack[DbtKeywords]) -> dict[str, Any]:
        """Let dbt take the snapshots that changed, or whose inputs did."""
        return self._run("snapshot", options)

    def compile(self, **options: Unpack[DbtKeywords]) -> dict[str, Any]:
        """Let dbt compile what is selected; nothing is built."""
        with self._listen() as listener:
            result = compile_dbt_project(self._root, self._parse("compile", options), listener)
        if result.interrupted:
            raise KeyboardInterrupt
        return result.to_data()

    def _run(self, verb: str, options: Mapping[str, Any]) -> dict[str, Any]:
        with self._listen() as listener:
            result = run_dbt_project(self._root, verb, self._parse(verb, options), listener)
        if any(phase.run.interrupted for phase in result.dbt):
            raise KeyboardInterrupt
        return result.to_data()

    def _parse(self, verb: str, options: Mapping[str, Any]) -> DbtCommandOptions:
        # JSON is YAML, which is what dbt reads.
        values = {**options, "vars": json.dumps(options["vars"]) if options.get("vars") else None}
        return parse_options(DbtCommandOptions, {**values, "sqb_target": self._target}, f"dbt.{verb}")

    @contextmanager
    def _listen(self) -> Iterator[_Forwarder]:
        folder = self._root / ".sqb" / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"dbt_{generate_run_id()}.log").open("w", encoding="utf-8") as out:
            listener = _Forwarder(out, self._caller)
            yield listener
        if listener.events.raised is not None:
            raise listener.events.raised


class _Forwarder(DbtListener):
    """Forwards what happens to the caller's function."""

    def __init__(self, out: TextIO, caller: Caller) -> None:
        self.out = out
        self._stop, self._caller = StopEvent(caller.stop), caller
        self.events = EventForwarder(caller.listen, self._stop)

    def report_progress(self, text: str) -> None:
        self.events.report_progress(text)

    def report_wait(self, text: str) -> None:
        self.events.report_progress(text)

    def create_spark(self, workspace: Workspace) -> OnDemandSpark:
        return OnDemandSpark(workspace, self.report_wait, stop=self._stop, external_session=self._caller.spark)

    @property
    def listen_to(self) -> ListenTo:
        return self.events.forward_during
