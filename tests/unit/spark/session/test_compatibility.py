"""A Spark that somebody else set up: what it lacks is said, with the setting to add."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import __version__ as our_version
from pyspark.errors import AnalysisException, PySparkException

from sqb.errors.connections import SparkUnfit
from sqb.names import Relation
from sqb.spark.session.compatibility import (
    has_catalog,
    prepare_session,
    refuse_other_lake,
    refuse_other_version,
    refuse_without_iceberg,
)
from sqb.spark.session.conf import ICEBERG_EXTENSIONS

WHERE = "the Spark server sc://h:1 of the connection big"


class Fixed(AnalysisException):
    def getCondition(self) -> str:
        return "CANNOT_MODIFY_CONFIG"


class Conf(dict[str, str]):
    """Settings of a session, some of which belong to Spark as a whole."""

    fixed: tuple[str, ...] = ("spark.executor.memory",)

    def set(self, key: str, value: str) -> None:
        if key in self.fixed:
            raise Fixed(f"cannot modify {key}")
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self)


class Session:
    """A session that answers what it is told to."""

    def __init__(self, conf: dict[str, str] | None = None, version: str = our_version, **answers: Any) -> None:
        self.conf, self.version, self.answers = Conf(conf or {}), version, answers

    def sql(self, statement: str) -> Any:
        answer = self.answers["namespaces" if statement.startswith("SHOW") else "metadata"]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(collect=lambda: [(text,) for text in answer])


def refusal(call: Any, *arguments: Any) -> SparkUnfit:
    with pytest.raises(SparkUnfit) as raised:
        call(*arguments)
    return raised.value


def test_a_server_of_another_version_is_refused() -> None:
    error = refusal(refuse_other_version, Session(version="3.5.1"), WHERE, True)
    assert error.message == f"{WHERE} is Spark 3.5.1, and sqb uses PySpark {our_version}"
    assert error.hint == f"use a server of Spark {our_version.rpartition('.')[0]}"
    assert refusal(refuse_other_version, Session(version="3.5.1"), WHERE, False).hint == "use a session of Spark 4.1"


def test_another_patch_of_the_version_will_do() -> None:
    refuse_other_version(Session(version=our_version.rpartition(".")[0] + ".99"), WHERE, True)
    refuse_other_version(Session(version="4.0.0"), WHERE, False)


def test_iceberg_must_have_been_there_from_the_start() -> None:
    error = refusal(refuse_without_iceberg, Session({"spark.sql.extensions": "a.B"}), WHERE)
    assert error.message == f"{WHERE} was started without Iceberg"
    assert error.hint is not None and f"`--conf spark.sql.extensions=a.B,{ICEBERG_EXTENSIONS}`" in error.hint
    refuse_without_iceberg(Session({"spark.sql.extensions": f"a.B,{ICEBERG_EXTENSIONS}"}), WHERE)


def test_what_belongs_to_spark_as_a_whole_must_be_as_wanted() -> None:
    wanted = {"spark.sql.x": "1", "spark.executor.memory": "9g"}
    error = refusal(prepare_session, Session(namespaces=[]), WHERE, "lake", wanted)
    assert error.message.startswith("`spark.executor.memory` cannot be changed on a Spark that runs already")
    session = Session({"spark.executor.memory": "9g"}, namespaces=[])
    prepare_session(session, WHERE, "lake", wanted)
    assert session.conf["spark.sql.x"] == "1"


def test_jars_that_are_missing() -> None:
    missing = AnalysisException("Cannot find catalog plugin class for catalog 'lake': org.apache.iceberg.X")
    error = refusal(prepare_session, Session(namespaces=missing), WHERE, "lake", {})
    assert error.message == f"{WHERE} does not have the jars of the catalog `lake`"
    driver = AnalysisException("No suitable driver found for jdbc:postgresql://h/db")
    assert "org.postgresql:postgresql" in str(
        refusal(prepare_session, Session(namespaces=driver), WHERE, "lake", {}).hint
    )


def test_a_catalog_that_is_another_one() -> None:
    current = {Relation("shop", "orders"): "/lake/shop/orders/metadata/3.json"}

    def ask(session: Session) -> None:
        refuse_other_lake(session, WHERE, "lake", prepare_session(session, WHERE, "lake", {}), current)

    assert "has no schema shop" in refusal(ask, Session(namespaces=["other"])).message
    other = Session(namespaces=["shop"], metadata=["/elsewhere/1.json"])
    assert "its shop.orders is another" in refusal(ask, other).message
    gone = Session(namespaces=["shop"], metadata=AnalysisException("no such table"))
    assert "its shop.orders is another" in refusal(ask, gone).message
    ask(Session(namespaces=["shop", "more"], metadata=["file:/lake/shop/orders/metadata/3.json"]))


class Unanswered(PySparkException):
    def getGrpcStatusCode(self) -> Any:
        return SimpleNamespace(name="UNAVAILABLE")


def test_a_catalog_that_cannot_be_asked_is_not_another_one() -> None:
    session = Session(namespaces=["shop"], metadata=Unanswered("gone"))
    with pytest.raises(Unanswered):
        refuse_other_lake(session, WHERE, "lake", {"shop"}, {Relation("shop", "orders"): "/lake/3.json"})


def test_a_catalog_of_that_name() -> None:
    assert has_catalog(Session({"spark.sql.catalog.lake": "org.X"}), "lake")
    assert not has_catalog(Session(), "lake")


def test_flags_of_older_versions_are_the_connections_or_sparks_own() -> None:
    given = {"spark.sql.legacy.a": "true", "spark.sql.legacy.b": "true", "spark.sql.shuffle.partitions": "3"}
    session = Session(given, namespaces=[])
    prepare_session(session, WHERE, "lake", {"spark.sql.legacy.b": "false"})
    assert session.conf == {"spark.sql.legacy.b": "false", "spark.sql.shuffle.partitions": "3"}
