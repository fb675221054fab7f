"""Mistakes in the queries of models that are found before Spark starts (`SQB-S006` to `SQB-S015`)."""

from __future__ import annotations

from sqb.errors.project import SqlProblem


class UnknownColumn(SqlProblem):
    """A query names a column or a field that none of its tables has."""

    code = "SQB-S006"


class AmbiguousColumn(SqlProblem):
    """A query names a column that several of its tables have."""

    code = "SQB-S007"


class UnknownFunction(SqlProblem):
    """A query calls a function that neither Spark nor the project has."""

    code = "SQB-S008"


class WrongArguments(SqlProblem):
    """A query calls a function of Spark with a number of arguments that it does not take."""

    code = "SQB-S009"


class DoubledColumn(SqlProblem):
    """A model has two columns of one name."""

    code = "SQB-S010"


class SetOperationMisfit(SqlProblem):
    """The sides of a set operation, or a query and its list of names, have other numbers or types of columns."""

    code = "SQB-S011"


class NotGrouped(SqlProblem):
    """A column of a grouped query is neither in GROUP BY nor inside an aggregate."""

    code = "SQB-S012"


class MisplacedAggregate(SqlProblem):
    """An aggregate, a window function or a generator is where there can be none, or has no window."""

    code = "SQB-S013"


class WrongType(SqlProblem):
    """A value has a type that cannot be compared, cast or computed with."""

    code = "SQB-S014"


class BreakingChange(SqlProblem):
    """A model, a contract or an exposure reads a column that a node loses with the plan."""

    code = "SQB-S015"
