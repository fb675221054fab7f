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

from sqb.build.checks.analyse import explain_spark_refusal
from sqb.build.checks.golden import build_golden_query
from sqb.build.checks.report import SHOWN_ROWS, Example, Failure, Report, format_row_count
from sqb.checks.model import Check, ColumnTest, Figures, GoldenTest, Measurements, RelationSlot, RowTest, Violations
from sqb.names import quote
from sqb.project.values import Golden
from sqb.types.model import Type

# An aggregate over a relation: what can be in FROM, and the expression.
Question = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Relations:
    """What stands for relations in a FROM clause: a name, `t VERSION AS OF 1`, or a query in brackets."""

    new: str
    whole: str
    named: Callable[[str], str]

    def resolve(self, slot: RelationSlot) -> str:
        """The relation of a slot."""
        match slot.which:
            case "new":
                return self.new
            case "whole":
                return self.whole
            case _:
                return self.named(slot.name)


def verify_checks(
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
    evaluation = _Evaluation(
        session,
        tuple(checks),
        Relations(new, whole, relations),
        previous or {},
        time.time() if now is None else now,
        golden,
        held_before,
    )
    return evaluation.build_report()


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
    types: dict[str, Type] | None = None

    def build_report(self) -> Report:
        self._run_questions()
        failures = [failure for i, check in enumerate(self.checks) if (failure := self._judge_safely(i, check))]
        figures = {
            figure.name: self.answers.get((figure.of.render(self.relations.resolve), figure.sql))
            for check in self.checks
            if isinstance(check.test, Figures)
            for figure in check.test.figures
            if figure.name in check.test.keep
        }
        return Report(
            tuple(f for f in failures if f.check.is_blocking),
            tuple(f for f in failures if not f.check.is_blocking),
            figures,
        )

    def _run_questions(self) -> None:
        """Answer the questions of all checks, one query per relation."""
        by_relation: dict[str, dict[str, None]] = {}
        for check in self.checks:
            for relation, aggregate in self._iter_questions(check):
                by_relation.setdefault(relation, {})[aggregate] = None
        for relation, aggregates in by_relation.items():
            try:
                self._compute_aggregates(relation, list(aggregates))
            except Exception as error:
                explain_spark_refusal(error)
                self._run_one_by_one(relation)

    def _run_one_by_one(self, relation: str) -> None:
        for index, check in enumerate(self.checks):
            aggregates = [aggregate for of, aggregate in self._iter_questions(check) if of == relation]
            if not aggregates or index in self.broken:
                continue
            try:
                self._compute_aggregates(relation, aggregates)
            except Exception as error:
                self.broken[index] = _build_unevaluated_failure(check, error)

    def _iter_questions(self, check: Check) -> Iterator[Question]:
        match check.test:
            case RowTest() as test:
                yield self._get_checked_relation(check), test.count
            case Figures(figures=figures):
                for figure in figures:
                    yield figure.of.render(self.relations.resolve), figure.sql

    def _get_checked_relation(self, check: Check) -> str:
        return self.relations.new if check.is_limited_to_new_rows else self.relations.whole

    def _compute_aggregates(self, relation: str, aggregates: Sequence[str]) -> None:
        selected = ", ".join(f"{aggregate} AS `a{i}`" for i, aggregate in enumerate(aggregates))
        (row,) = self.session.sql(f"SELECT {selected} FROM {relation}").collect()
        for aggregate, value in zip(aggregates, row, strict=True):
            self.answers[relation, aggregate] = _encode_figure(value)

    def _judge_safely(self, index: int, check: Check) -> Failure | None:
        if index in self.broken:
            return self.broken[index]
        try:
            return self._judge(check)
        except Exception as error:
            return _build_unevaluated_failure(check, error)

    def _judge(self, check: Check) -> Failure | None:
        match check.test:
            case RowTest(violation) as test:
                relation = self._get_checked_relation(check)
                count = self.answers[relation, test.count]
                query = f"SELECT * FROM {relation} WHERE {violation}"
                return self._build_violation(check, query, count) if count else None
            case Figures():
                return self._judge_figures(check, check.test)
            case Violations(query, narrow, weight):
                violation_query = narrow if narrow is not None and self.held_before(check) else query
                return self._judge_violations(check, violation_query.render(self.relations.resolve), weight)
            case ColumnTest(judge):
                message = judge({name.lower(): kind for name, kind in self._get_types().items()})
                return Failure(check, message) if message else None
            case GoldenTest(file, _):
                return self._judge_golden(check, file)

    def _judge_figures(self, check: Check, test: Figures) -> Failure | None:
        figures = {f.name: self.answers[f.of.render(self.relations.resolve), f.sql] for f in test.figures}
        message = test.judge(Measurements(figures, self.previous, self.now))
        if message is None:
            return None
        if test.sample is None:
            return Failure(check, message)
        query = test.sample.render(self.relations.resolve)
        try:
            examples = self._read_examples(query, SHOWN_ROWS)
        except Exception as error:
            # The figures have spoken; rows that cannot be shown do not make that doubtful.
            explain_spark_refusal(error)
            return Failure(check, message)
        return Failure(check, message, examples=examples, query=query)

    def _judge_violations(self, check: Check, query: str, weight: str | None, statement: str = "") -> Failure | None:
        examples = self._read_examples(query, SHOWN_ROWS + 1)
        if not examples:
            return None
        if len(examples) > SHOWN_ROWS:
            total = f"sum({quote(weight)})" if weight else "count(*)"
            ((count, lines),) = self.session.sql(f"SELECT {total}, count(*) FROM ({query}\n)").collect()
        else:
            lines = len(examples)
            count = sum(int(example[weight]) for example in examples) if weight else lines
        message = statement and format_row_count(count, f"differs from {statement}", f"differ from {statement}")
        return Failure(check, message or _format_violations(count), count, examples[:SHOWN_ROWS], lines, query)

    def _build_violation(self, check: Check, query: str, count: int) -> Failure:
        return Failure(check, _format_violations(count), count, self._read_examples(query, SHOWN_ROWS), count, query)

    def _judge_golden(self, check: Check, file: str) -> Failure | None:
        if self.golden is None:
            raise ValueError("no golden files are known")
        query, weight = build_golden_query(self.golden(file), self._get_types(), self.relations.whole)
        return self._judge_violations(check, query, weight, file)

    def _get_types(self) -> dict[str, Type]:
        """The columns of the whole relation, with their types."""
        if self.types is None:
            from sqb.spark.data.column_types import list_types

            self.types = dict(list_types(self.session.sql(f"SELECT * FROM {self.relations.whole}")))
        return self.types

    def _read_examples(self, query: str, most: int) -> tuple[Example, ...]:
        """The first rows of a query, every value as Spark writes it."""
        frame = self.session.sql(query).limit(most)
        names = _deduplicate_names(frame.columns)
        texts = [_format_as_string(f"c{i}", kind) for i, (_, kind) in enumerate(frame.dtypes)]
        rows = frame.toDF(*(f"c{i}" for i in range(len(names)))).selectExpr(*texts).collect() if names else []
        return tuple(
            {name: "NULL" if value is None else value for name, value in zip(names, row, strict=True)} for row in rows
        )


def _format_as_string(column: str, kind: str) -> str:
    match kind:
        case "binary":
            return f"concat('0x', hex({column})) AS {column}"
        case "variant":
            return f"to_json({column}) AS {column}"
        case _:
            return f"CAST({column} AS STRING) AS {column}"


def _deduplicate_names(names: Sequence[str]) -> list[str]:
    """Names of columns, those that occur again with a number."""
    counts: dict[str, int] = {}
    unique_names = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        unique_names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique_names


def _format_violations(count: int) -> str:
    return format_row_count(count, "violates it", "violate it")


def _encode_figure(value: Any) -> Any:
    """A figure as JSON can hold it."""
    match value:
        case Decimal() | date():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case _:
            return value


def _build_unevaluated_failure(check: Check, error: Exception) -> Failure:
    message, hint, _ = explain_spark_refusal(error)
    return Failure(check, f"it could not be evaluated: {message}", hint=hint, evaluated=False)
