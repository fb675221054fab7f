"""`ctx`: what a node may ask of its build. Nothing here starts anything before it is asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from sqb.errors.python import ContextMisuse
from sqb.names import suggest_nearest
from sqb.python_runtime.json_payload import encode_payload
from sqb.python_runtime.loader.rows import LoaderOutput
from sqb.python_runtime.protocol import Link

_SKIP_MODES = ("soft", "hard")
_HOOK_ATTRIBUTES = ("results", "failures")


class Skip(BaseException):
    """Ends a node that has nothing to do; no `except Exception` of the node's code holds it up."""

    def __init__(self, reason: str, mode: str) -> None:
        super().__init__(reason)
        self.reason, self.mode = reason, mode


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of a node as it recorded it, in JSON."""

    payload: str = ""
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What became of a node of the build so far."""

    name: str
    type: str
    status: str
    rows: int | None = None
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What a materialisation did to its relation: whether it wrote to it, and how many rows, where it says so."""

    written: bool
    rows: int | None = None


class NodeLogger(logging.Logger):
    """A logger whose lines are shown with the node's name; `ctx.log("text")` is short for `ctx.log.info("text")`."""

    def __call__(self, message: object, *arguments: object) -> None:
        self.info(message, *arguments, stacklevel=2)


class Context:
    """What the function of a node is called with."""

    def __init__(self, call: Mapping[str, Any], link: Link, data: LoaderOutput, log: NodeLogger) -> None:
        self._call, self._link, self._data = call, link, data
        self._session: Any = None
        self._recorded: Recorded | None = None
        self.log = log
        self.run_id: str = call["run_id"]
        self.target: str = call["target"]
        self.vars: dict[str, Any] = dict(call["vars"])
        if call["type"] == "hook":
            self.results = [_load_result(entry) for entry in call["extra"].get("results", ())]
            self.failures = [result for result in self.results if result.status == "failed"]

    def __getattr__(self, name: str) -> Any:
        call: Mapping[str, Any] = self.__dict__.get("_call", {})
        # What a materialisation gets is said by whoever calls it.
        if name in call.get("extra", {}):
            return call["extra"][name]
        if name in _HOOK_ATTRIBUTES:
            raise AttributeError(f"only a hook has ctx.{name}")
        public = [n for n in (*vars(type(self)), *self.__dict__) if not n.startswith("_")]
        near = suggest_nearest(name, public)
        raise AttributeError(f"ctx has no {name!r}" + (f": {near}" if near else ""))

    # --- Spark ----------------------------------------------------------------------------------------------------

    @property
    def spark(self) -> Any:
        """The build's Spark, in a session of the node's own; it is started when it is first asked for."""
        if self._session is None:
            where = self._link.request("spark")
            from sqb.spark.sharing.child import (
                connect_to_session,  # loads pyspark, which only nodes that ask for Spark pay for
            )

            self._session = connect_to_session(where, Path(self._call["root"]))
        return self._session

    def query(self, sql: str) -> Any:
        """The result of a query, as a Spark DataFrame."""
        return self.spark.sql(sql)

    def execute(self, sql: str) -> None:
        """Run a statement to its end, for what it does."""
        session = self.spark
        from sqb.spark.data.statements import run_statement  # Spark is there by now

        run_statement(session, sql)

    # --- the project ----------------------------------------------------------------------------------------------

    def relation(self, name: str) -> str:
        """The quoted name in SQL of a model, seed or source."""
        return self._find_relation(self._call["relations"], name)

    def ref(self, name: str) -> Any:
        """The rows of a model, seed or source at the version that this build reads, as a Spark DataFrame."""
        text = self._find_relation(self._call["pinned"], name)
        return self.spark.sql(f"SELECT * FROM {text}")

    def changes(self, name: str) -> Any:
        """How the rows of an input changed since the model was built, as a Spark DataFrame."""
        self._find_relation(self._call["pinned"], name)
        session = self.spark
        return session.table(f"global_temp.{self._link.request('changes', name=name)}")

    def _find_relation(self, known: Mapping[str, str], name: str) -> str:
        if not isinstance(name, str):
            raise ContextMisuse(f"a name is a text, not {name!r}")
        relation = known.get(name) or {n.lower(): text for n, text in known.items()}.get(name.lower())
        if relation is None:
            raise ContextMisuse(
                f'no model, seed or source is called "{name}" here',
                hint=suggest_nearest(name, known) or "name it in `depends_on`, as it is called in the project",
            )
        return relation

    # --- results --------------------------------------------------------------------------------------------------

    def result_of(self, name: str) -> Any:
        """What another node recorded as its result: in this build, or else the last time that it succeeded."""
        return self._link.request("result_of", name=name)

    @property
    def last_result(self) -> Any:
        """What this node recorded the last time that it succeeded; None when it never has."""
        return self._link.request("last_result")

    def result(self, payload: Any = None, metadata: Mapping[str, Any] | None = None) -> Recorded:
        """Record the result of this run; the last call counts."""
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ContextMisuse("metadata is a mapping of names to values", hint='write metadata={"pages": 3}')
        self._recorded = Recorded(
            encode_payload(payload, "payload") if payload is not None else "",
            encode_payload(metadata, "metadata") if metadata else "",
        )
        return self._recorded

    def skip(self, reason: str = "", mode: Literal["soft", "hard"] = "soft") -> NoReturn:
        """End here, as there is nothing to do; `hard` also keeps what depends on this node from running."""
        if mode not in _SKIP_MODES:
            hint = suggest_nearest(str(mode), _SKIP_MODES) or 'mode is "soft" or "hard"'
            raise ContextMisuse(f"ctx.skip has no mode {mode!r}", hint=hint)
        raise Skip(str(reason), mode)

    def write(self, data: Any) -> None:
        """Add rows to what this loader loads: anything that it could also return. May be called many times."""
        if self._call["type"] != "loader":
            raise ContextMisuse(
                f"only a loader has ctx.write, and this is a {self._call['type']}",
                hint="use ctx.execute to change tables, or ctx.result to record a result",
            )
        self._data.write(data)

    # --- materialisations -----------------------------------------------------------------------------------------

    def written(self, rows: int | None = None) -> Made:
        """Say that the relation was written, and how many rows: what a materialisation returns."""
        self._refuse_other_types("written")
        if rows is not None and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 0):
            raise ContextMisuse(f"rows is a number of rows, not {rows!r}", hint="write ctx.written(rows=3)")
        return Made(True, rows)

    def unchanged(self) -> Made:
        """Say that the relation is up to date as it is: what a materialisation returns that had nothing to do."""
        self._refuse_other_types("unchanged")
        return Made(False)

    def _refuse_other_types(self, name: str) -> None:
        if self._call["type"] != "materialization":
            raise ContextMisuse(f"only a materialization has ctx.{name}, and this is a {self._call['type']}")


def _load_result(entry: Mapping[str, Any]) -> NodeResult:
    return NodeResult(**{name: entry[name] for name in NodeResult.__slots__ if name in entry})
