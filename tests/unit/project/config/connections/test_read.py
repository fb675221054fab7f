"""`[connections.*]`: catalogs and Sparks of every kind, and secrets where they may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqb.cache import codec
from sqb.errors.base import Errors
from sqb.project.config.config import load_config
from sqb.project.config.connections.model import CatalogSettings, Connection, SparkSettings
from sqb.project.config.secrets import mask_secrets

PROJECT, LOCAL = "sqlbuild_project.toml", "sqlbuild_local.toml"
HINT = "write @@ENV:NAME in its place, the name of an environment variable, or put it into sqlbuild_local.toml"
Load = Callable[..., Connection]


@pytest.fixture
def load(tmp_path: Path, errors: Errors) -> Load:
    def load(text: str, local: str = "") -> Connection:
        (tmp_path / PROJECT).write_text(f'name = "shop"\n[connections.a]\n{text}', encoding="utf-8")
        (tmp_path / LOCAL).write_text(local, encoding="utf-8")
        config = load_config(tmp_path, errors)
        assert config is not None
        return config.connections["a"]

    return load


@pytest.mark.parametrize(
    ("text", "catalog"),
    [
        ('catalog = {uri = "postgresql://anna@db:5433/lake"}', CatalogSettings(uri="postgresql://anna@db:5433/lake")),
        (
            'catalog = {uri = "postgresql:///lake?schema=team", warehouse = "s3://shop", options = {s3.region = "x"}}',
            CatalogSettings(uri="postgresql:///lake?schema=team", warehouse="s3://shop", options={"s3.region": "x"}),
        ),
        (
            'catalog = {type = "rest", uri = "https://h:8181", warehouse = "shop"}',
            CatalogSettings("rest", "https://h:8181", "shop"),
        ),
        ('catalog = {type = "rest", uri = "@@ENV:CATALOG"}', CatalogSettings("rest", "@@ENV:CATALOG", "")),
        (
            'catalog = {type = "hive", uri = "thrift://h:9083", warehouse = "s3://shop"}',
            CatalogSettings("hive", "thrift://h:9083", "s3://shop"),
        ),
        (
            'catalog = {type = "glue", warehouse = "s3://shop"}',
            CatalogSettings("glue", "", "s3://shop"),
        ),
        (
            'catalog = {type = "catalog-impl", warehouse = "s3://b", options = {catalog-impl = "org.example.Catalog"}}',
            CatalogSettings("catalog-impl", "", "s3://b", options={"catalog-impl": "org.example.Catalog"}),
        ),
    ],
)
def test_catalogs(text: str, catalog: CatalogSettings, load: Load, errors: Errors) -> None:
    value = load(text).catalog
    assert errors.found == []
    assert (value.type, value.uri, value.warehouse, dict(value.options)) == (
        catalog.type,
        catalog.uri,
        catalog.warehouse,
        catalog.options,
    )


def test_a_server_of_spark(load: Load, errors: Errors) -> None:
    assert load('spark = { remote = "sc://h:15002/;token=@@ENV:TOKEN" }').spark == SparkSettings(
        remote="sc://h:15002/;token=@@ENV:TOKEN"
    )
    assert errors.found == []


DATABASE = "3:18"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('catalog = {type = "rest"}', ("BadValue", "3:19", "such as https://host:8181")),
        ('catalog = {type = "hive", warehouse = "s3://b"}', ("BadValue", "3:19", "such as thrift://host:9083")),
        (
            'catalog = {type = "catalog-impl", warehouse = "s3://b"}',
            ("BadValue", "3:19", "the Java class of the catalog"),
        ),
        ('catalog = {type = "postgresql"}', ("BadValue", "3:19", 'write type = "jdbc", and the database in `uri`')),
        ('catalog = {type = "rest", uri = "h:8181"}', ("BadValue", "3:33", "such as https://host:8181")),
        ('catalog = {uri = "mysql://h/d"}', ("NotYet", DATABASE, None)),
        ('catalog = {uri = "jdbc:postgresql://h/d"}', ("BadValue", DATABASE, None)),
        ('catalog = {uri = "postgresql+psycopg2://h/d"}', ("BadValue", DATABASE, None)),
        ('catalog = {uri = "postgresql://h:port/d"}', ("BadValue", DATABASE, None)),
        ('catalog = {warehouse = "gs://b/x"}', ("BadValue", "3:24", None)),
        ('catalog = {warehouse = "s3://"}', ("BadValue", "3:24", None)),
        ('catalog = {type = "glue"}', ("BadValue", "3:19", "such as s3://bucket/path")),
        ('catalog = {options = {"rest.client.connection-timeout-ms" = "8s"}}', ("BadValue", "3:61", None)),
        ("catalog = {options = {rest.client.socket-timeout-ms = 0.5}}", ("BadValue", "3:55", None)),
        ('catalog = {options = {s3.connect-timeout = "soon"}}', ("BadValue", "3:44", None)),
        (
            "catalog = {options = {rest.sigv4-enabled = true}}",
            ("NotYet", "3:44", "a server takes a `token` or a `credential`"),
        ),
        (
            'catalog = {options = {"rest.auth.type" = "SigV4"}}',
            ("NotYet", "3:42", "a server takes a `token` or a `credential`"),
        ),
        ("catalog = {options = {rest.sigv4-enabled = 7}}", None),
        ('spark = {remote = "h:15002"}', ("BadValue", "3:19", "such as sc://host:15002")),
    ],
)
def test_problems(
    text: str, problem: tuple[str, str, str | None] | None, load: Load, seen: Callable[[], Any], errors: Errors
) -> None:
    load(text)
    assert seen() == ([(problem[0], f"{PROJECT}:{problem[1]}", problem[2])] if problem is not None else [])


SECRETS = {
    'catalog = {uri = "postgresql://anna:s3cr3t@db/lake"}': "uri",
    'catalog = {uri = "postgresql://db/lake?user=a&password=s3cr3t"}': "uri",
    'catalog = {options = {"s3.secret-access-key" = "s3cr3t"}}': "s3.secret-access-key",
    'catalog = {options = {s3.access-key-id = "s3cr3t"}}': "s3.access-key-id",
    'catalog = {type = "rest", uri = "https://h", options = {credential = "id:s3cr3t"}}': "credential",
    'catalog = {type = "rest", uri = "https://h", options = {header.Authorization = "s3cr3t"}}': "header.Authorization",
    'spark = {remote = "sc://h/;token=s3cr3t"}': "remote",
    'spark = {conf = {"spark.hadoop.fs.s3a.secret.key" = "s3cr3t"}}': "spark.hadoop.fs.s3a.secret.key",
    'catalog = {options = {"adls.connection-string" = "s3cr3t"}}': "adls.connection-string",
    'catalog = {type = "rest", uri = "https://h", options = {header.Cookie = "s3cr3t"}}': "header.Cookie",
    'catalog = {type = "rest", uri = "https://h", options = {header.X-Auth = "s3cr3t"}}': "header.X-Auth",
    'catalog = {options = {pwd = "s3cr3t"}}': "pwd",
    'catalog = {options = {"token-params" = "s3cr3t"}}': "token-params",
    'spark = {conf = {"spark.x.secret.items" = "s3cr3t"}}': "spark.x.secret.items",
    'spark = {conf = {"spark.driver.extraJavaOptions" = "-Xss4m -Djavax.net.ssl.trustStorePassword=s3cr3t"}}': (
        "spark.driver.extraJavaOptions"
    ),
    "[connections.a.spark.conf.spark.ssl]\nkeyPassword = 's3cr3t'": "spark.ssl.keyPassword",
}


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_in_the_file_for_everybody_is_refused_and_not_repeated(text: str, load: Load, errors: Errors) -> None:
    load(text)
    (error,) = errors.found
    assert error.code == "SQB-N201"
    assert error.message == f"`{SECRETS[text]}` holds a secret, and this file is for everybody"
    in_a_file = "@/path/of/the/file" in (error.hint or "")
    assert in_a_file if "JavaOptions" in text else error.hint == HINT
    assert error.at is not None and error.at.file == PROJECT and error.at.line >= 3
    shown = mask_secrets(text.splitlines()[-1])
    assert "s3cr3t" not in shown and len(shown) == len(text.splitlines()[-1])


@pytest.mark.parametrize(
    "text",
    [
        'catalog = {uri = "postgresql://@@ENV:WHO@db/lake"}',
        'catalog = {uri = "postgresql://anna:@@ENV:PASSWORD@db/lake"}',
        'catalog = {uri = "postgresql://@@ENV:WHO:@@ENV:PASSWORD@db/lake"}',
        'catalog = {type = "rest", uri = "https://h", options = {credential = "@@ENV:WHO:@@ENV:PASSWORD"}}',
        'catalog = {options = {"client.credentials-provider" = "org.example.Provider", token-refresh-enabled = true}}',
        'spark = {conf = {"spark.hadoop.fs.s3a.aws.credentials.provider" = "org.example.Provider"}}',
        'spark = {conf = {"spark.x.token-refresh-ms" = "1", "spark.x.token_age_ms" = "2"}}',
        'spark = {conf = {"spark.driver.extraJavaOptions" = "-Da.passwordFile=/x -Db=c"}}',
        'catalog = {type = "rest", uri = "https://h", options = {header.X-Iceberg-Access-Delegation = "x"}}',
    ],
)
def test_variables_and_names_of_providers_are_no_secrets(text: str, load: Load, errors: Errors) -> None:
    assert not load(text).private and errors.found == []
    assert mask_secrets(text) == text


@pytest.mark.parametrize("key", ["spark.driver.extraJavaOptions", "spark.executor.defaultJavaOptions"])
def test_options_of_java_are_no_place_for_variables(key: str, load: Load, errors: Errors) -> None:
    load(f'spark = {{conf = {{"{key}" = "-Dx.storePassword=@@ENV:WORD"}}}}')
    (error,) = errors.found
    assert error.code == "SQB-P003" and str(error.at) == f"{PROJECT}:3:{len(key) + 23}"
    assert error.message == (
        f"`{key}` cannot hold @@ENV:NAME: everybody on the machine can read the options of a Java process"
    )
    assert error.hint is not None and error.hint.startswith("write options that hold a secret into a file that only")


def test_texts_are_never_substituted(load: Load, errors: Errors) -> None:
    load('spark = {conf = {"spark.sql.variable.substitute" = true}}')
    (error,) = errors.found
    assert error.code == "SQB-P003" and error.message.startswith("`spark.sql.variable.substitute` is always false")


def test_ones_own_file_may_hold_secrets_which_no_text_shows_and_no_cache_keeps(load: Load, errors: Errors) -> None:
    own = '[connections.a.catalog]\nuri = "postgresql://anna:s3cr3t@db/lake"\noptions = {token = "s3cr3t"}\n'
    connection = load('catalog = {name = "team"}\n', own + '[connections.a.spark]\nconf = {x.token = "s3cr3t"}\n')
    assert errors.found == [] and connection.catalog.name == "team"
    assert connection.private
    assert "s3cr3t" not in repr(connection)


def test_a_wrong_address_with_a_password_is_not_repeated(load: Load, errors: Errors) -> None:
    load("", '[connections.a.catalog]\nuri = "oracle://anna:s3cr3t@db/lake"\n')
    (error,) = errors.found
    assert "s3cr3t" not in error.message


def test_what_the_cache_keeps_is_what_was_written(load: Load) -> None:
    connection = load('catalog = {uri = "postgresql://anna:@@ENV:PASSWORD@db/lake"}\nspark = {master = "local[2]"}')
    remaining = codec.encode(connection)
    assert not connection.private and "@@ENV:PASSWORD" in remaining
    assert codec.decode(Connection, remaining) == connection
