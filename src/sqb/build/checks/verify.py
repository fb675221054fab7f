"""Evaluates checks with as few passes over the data as possible.

All row tests and figures over one relation are one aggregate query. Violating rows are looked up only for checks that
failed. When the shared query fails, its checks are asked one by one, and the error lands at the check that it is of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from sqb.build.checks.golden import golden_differences
from sqb.build.checks.refusals import said_by_spark
from sqb.build.checks.report import SHOWN_ROWS, Example, Failure, Report, rows
from sqb.checks.values import Check, ColumnTest, Figures, GoldenTest, Hole, RowTest, Seen, Violations
from sqb.names import quote
from sqb.project.values import Golden

# An aggregate over a relation: what can stand in FROM, and the expression.
Question = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Relations:
    """What stands for relations in a FROM clause: a name, `t VERSION AS OF 1`, or a query in brackets."""

    new: str
    whole: str
    named: Callable[[str], str]

    def of(self, hole: Hole) -> str:
        """What fills a hole."""
        match hole.which:
            case "new":
                return self.new
            case "whole":
                return self.whole
            case _:
                return self.named(hole.name)


def verify(
    session: Any,
    checks: Iterable[Check],
    new: str,
    whole: str,
    relations: Callable[[str], str],
    previous: Mapping[str, Any] | None = None,
    *,
    golden: Callable[[str], Golden] | None = None,
    now: float | None = None,
    held_before: Callable[[Check], bool] = lambda check: False,
) -> Report:
    """What checks find in a relation.

    `held_before` says of a check that it held for the relation without the new rows, and that what else it reads is as
    it was then; it is then asked only about what the new rows can have broken.
    """
    found = _Evaluation(
        session,
        tuple(checks),
        Relations(new, whole, relations),
        previous or {},
        time.time() if now is None else now,
        golden,
        held_before,
    )
    return found.report()


@dataclass(slots=True)
class _Evaluation:
    """One run over one relation."""

    session: Any
    checks: tuple[Check, ...]
    relations: Relations
    previous: Mapping[str, Any]
    now: float
    golden: Callable[[str], Golden] | None
    held_before: Callable[[Check], bool]
    answers: dict[Question, Any] = field(default_factory=dict)
    broken: dict[int, Failure] = field(default_factory=dict)
    types: dict[str, str] | None = None

    def report(self) -> Report:
        self._ask()
        found = [failure for i, check in enumerate(self.checks) if (failure := self._guarded(i, check))]
        figures = {
            figure.name: self.answers.get((figure.of.render(self.relations.of), figure.sql))
            for check in self.checks
            if isinstance(check.test, Figures)
            for figure in check.test.figures
            if figure.name in check.test.keep
        }
        return Report(tuple(f for f in found if f.check.blocks), tuple(f for f in found if not f.check.blocks), figures)

    def _ask(self) -> None:
        """Answer the questions of all checks, one query per relation."""
        by_relation: dict[str, dict[str, None]] = {}
        for check in self.checks:
            for relation, aggregate in self._questions(check):
                by_relation.setdefault(relation, {})[aggregate] = None
        for relation, aggregates in by_relation.items():
            try:
                self._aggregate(relation, list(aggregates))
            except Exception as error:
                said_by_spark(error)
                self._one_by_one(relation)

    def _one_by_one(self, relation: str) -> None:
        for index, check in enumerate(self.checks):
            own = [aggregate for of, aggregate in self._questions(check) if of == relation]
            if not own or index in self.broken:
                continue
            try:
                self._aggregate(relation, own)
            except Exception as error:
                self.broken[index] = _not_evaluated(check, error)

    def _questions(self, check: Check) -> Iterator[Question]:
        match check.test:
            case RowTest() as test:
                yield self._rows_of(check), test.count
            case Figures(figures=figures):
                for figure in figures:
                    yield figure.of.render(self.relations.of), figure.sql

    def _rows_of(self, check: Check) -> str:
        return self.relations.new if check.on_new_rows else self.relations.whole

    def _aggregate(self, relation: str, aggregates: Sequence[str]) -> None:
        selected = ", ".join(f"{aggregate} AS `a{i}`" for i, aggregate in enumerate(aggregates))
        (row,) = self.session.sql(f"SELECT {selected} FROM {relation}").collect()
        for aggregate, value in zip(aggregates, row, strict=True):
            self.answers[relation, aggregate] = _plain(value)

    def _guarded(self, index: int, check: Check) -> Failure | None:
        if index in self.broken:
            return self.broken[index]
        try:
            return self._judged(check)
        except Exception as error:
            return _not_evaluated(check, error)

    def _judged(self, check: Check) -> Failure | None:
        match check.test:
            case RowTest(violation) as test:
                relation = self._rows_of(check)
                count = self.answers[relation, test.count]
                query = f"SELECT * FROM {relation} WHERE {violation}"
                return self._violated(check, query, count) if count else None
            case Figures():
                return self._figures(check, check.test)
            case Violations(query, narrow, weight):
                asked = narrow if narrow is not None and self.held_before(check) else query
                return self._violations(check, asked.render(self.relations.of), weight)
            case ColumnTest(judge):
                message = judge({name.lower(): kind for name, kind in self._types().items()})
                return Failure(check, message) if message else None
            case GoldenTest(file, _):
                return self._golden(check, file)

    def _figures(self, check: Check, test: Figures) -> Failure | None:
        figures = {f.name: self.answers[f.of.render(self.relations.of), f.sql] for f in test.figures}
        message = test.judge(Seen(figures, self.previous, self.now))
        if message is None:
            return None
        if test.sample is None:
            return Failure(check, message)
        query = test.sample.render(self.relations.of)
        try:
            examples = self._examples(query, SHOWN_ROWS)
        except Exception as error:
            # The figures have spoken; rows that cannot be shown do not make that doubtful.
            said_by_spark(error)
            return Failure(check, message)
        return Failure(check, message, examples=examples, query=query)

    def _violations(self, check: Check, query: str, weight: str | None, said: str = "") -> Failure | None:
        examples = self._examples(query, SHOWN_ROWS + 1)
        if not examples:
            return None
        if len(examples) > SHOWN_ROWS:
            total = f"sum({quote(weight)})" if weight else "count(*)"
            ((count, lines),) = self.session.sql(f"SELECT {total}, count(*) FROM ({query}\n)").collect()
        else:
            lines = len(examples)
            count = sum(int(example[weight]) for example in examples) if weight else lines
        message = said and rows(count, f"differs from {said}", f"differ from {said}")
        return Failure(check, message or _violate(count), count, examples[:SHOWN_ROWS], lines, query)

    def _violated(self, check: Check, query: str, count: int) -> Failure:
        return Failure(check, _violate(count), count, self._examples(query, SHOWN_ROWS), count, query)

    def _golden(self, check: Check, file: str) -> Failure | None:
        if self.golden is None:
            raise ValueError("no golden files are known")
        query, weight = golden_differences(self.golden(file), self._types(), self.relations.whole)
        return self._violations(check, query, weight, file)

    def _types(self) -> dict[str, str]:
        """The columns of the whole relation, with their types in Spark's words."""
        if self.types is None:
            self.types = dict(self.session.sql(f"SELECT * FROM {self.relations.whole}").dtypes)
        return self.types

    def _examples(self, query: str, most: int) -> tuple[Example, ...]:
        """The first rows of a query, every value as Spark writes it."""
        frame = self.session.sql(query).limit(most)
        names = _different(frame.columns)
        texts = [_as_text(f"c{i}", kind) for i, (_, kind) in enumerate(frame.dtypes)]
        found = frame.toDF(*(f"c{i}" for i in range(len(names)))).selectExpr(*texts).collect() if names else []
        return tuple(
            {name: "NULL" if value is None else value for name, value in zip(names, row, strict=True)} for row in found
        )


def _as_text(column: str, kind: str) -> str:
    match kind:
        case "binary":
            return f"concat('0x', hex({column})) AS {column}"
        case "variant":
            return f"to_json({column}) AS {column}"
        case _:
            return f"CAST({column} AS STRING) AS {column}"


def _different(names: Sequence[str]) -> list[str]:
    """Names of columns, those that occur again with a number."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _violate(count: int) -> str:
    return rows(count, "violates it", "violate it")


def _plain(value: Any) -> Any:
    """A figure as JSON can hold it."""
    match value:
        case Decimal() | date():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case _:
            return value


def _not_evaluated(check: Check, error: Exception) -> Failure:
    message, hint, _ = said_by_spark(error)
    return Failure(check, f"it could not be evaluated: {message}", hint=hint, evaluated=False)
