"""OpenLineage events of builds, through the real client: to a file and to a server, and where neither can be had."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.build.events import NodeDone, NodeStarted
from sqb.build.spark_engine import OnDemandSpark
from sqb.cli.main import run
from sqb.errors.base import Errors, SqbError
from sqb.errors.build import QueryFailed
from sqb.lake.port import Columns, ColumnState, TableState
from sqb.names import Relation
from sqb.operations.environment import open_environment
from sqb.operations.plan import PlannedWorkspace, PlanOptions, plan_environment
from sqb.operations.telemetry.openlineage.names import name_catalog, name_location
from sqb.operations.telemetry.watch import list_asked, watch_run
from sqb.project.config.config import load_config
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.workspace import open_workspace
from unit.folders import write

TOML = 'name = "shop"\n[openlineage]\nfile = "logs/events.jsonl"\nnamespace = "jobs"\ndataset_namespace = "lake"\n'
FILES = {
    "sqlbuild_project.toml": TOML,
    "seeds/orders.csv": "id,customer,amount\n1,a,10\n2,b,20\n",
    "models/marts/revenue.sql": (
        "-- @description: By customer\n-- @owner: sales\n"
        "SELECT customer, sum(amount) AS total FROM orders WHERE id > 0 GROUP BY customer\n"
    ),
}
PARENT = "01941f29-7c00-7087-8940-40e5f93f36d1"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own settings."""
    for name in [n for n in os.environ if n.startswith(("OPENLINEAGE", "OTEL"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.argv", ["sqb"])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = write(tmp_path / "shop", FILES)
    monkeypatch.chdir(root)
    return root


def read_events(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "logs/events.jsonl").read_text().splitlines()]


def list_jobs(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["eventType"], event["job"]["name"]) for event in events]


def test_a_run_and_its_nodes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/dag.task/{PARENT}")
    assert run(["build", "-s", "orders"]) == 0
    events = read_events(project)
    assert list_jobs(events) == [
        ("START", "shop.dev"),
        ("START", "shop.dev.seeds.orders"),
        ("COMPLETE", "shop.dev.seeds.orders"),
        ("COMPLETE", "shop.dev"),
    ]
    first, _, done, last = events
    assert first["run"]["runId"] == last["run"]["runId"] != done["run"]["runId"]
    assert {event["job"]["namespace"] for event in events} == {"jobs"}
    assert first["run"]["facets"]["parent"]["run"] == {"runId": PARENT, "facets": {}}
    assert first["run"]["facets"]["parent"]["job"]["name"] == "dag.task"
    parent = done["run"]["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (first["run"]["runId"], "shop.dev")
    assert done["run"]["facets"]["sqb"]["reason"] == "First run"
    (output,) = done["outputs"]
    assert (output["namespace"], output["name"]) == ("lake", "seeds.orders")
    assert [(f["name"], f["type"]) for f in output["facets"]["schema"]["fields"]] == [
        ("id", "BIGINT"),
        ("customer", "STRING"),
        ("amount", "BIGINT"),
    ]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 2
    (place,) = output["facets"]["symlinks"]["identifiers"]
    assert place["namespace"] == "file" and place["name"].startswith(str(project / "lake/data"))
    assert all(event["producer"].startswith("pkg:pypi/sqb-spark@") for event in events)


def test_a_run_with_nothing_to_do_is_a_run(project: Path) -> None:
    assert run(["build", "-s", "orders"]) == 0
    assert run(["build", "-s", "orders"]) == 0
    assert list_jobs(read_events(project))[4:] == [("START", "shop.dev"), ("COMPLETE", "shop.dev")]


def plan_model(root: Path) -> PlannedWorkspace:
    workspace = open_workspace(root)
    spark = OnDemandSpark(workspace, lambda text: None)
    return plan_environment(open_environment(workspace, None), PlanOptions(), spark)


def test_a_model_with_column_lineage_and_a_failure(project: Path) -> None:
    assert run(["build", "-s", "orders"]) == 0
    planned = plan_model(project)
    model = next(n for n in planned.plan.nodes if n.name == "marts.revenue")
    columns = Columns.of([ColumnState("customer", '"string"', 1), ColumnState("total", '"long"', 2)])
    made = TableState("u", location="s3a://bucket/w/revenue", snapshot_id=7, columns=columns, rows=2)
    state: Any = SimpleNamespace(states={**planned.seen.states, Relation("marts", "revenue"): made}, externals={})
    notices: list[Any] = []
    with watch_run(planned, notices.append) as watch:
        watch.state = state
        watch.listen(NodeStarted("marts.revenue", "table"))
        watch.listen(NodeDone(model, "ok", "full", rows=2, seconds=1.0, snapshot_id=7))
        watch.listen(NodeDone(model, "failed", "full", error=QueryFailed("no space left")))
    assert all(not hasattr(notice, "text") for notice in notices)
    started, done, again, failed, ended = read_events(project)[-5:]
    assert [e["eventType"] for e in (started, done, again, failed, ended)] == [
        "START",
        "COMPLETE",
        "START",
        "FAIL",
        "FAIL",
    ]
    facets = done["job"]["facets"]
    assert facets["documentation"]["description"] == "By customer"
    assert facets["ownership"]["owners"][0]["name"] == "sales"
    assert "sum(amount)" in facets["sql"]["query"]
    assert [i["name"] for i in done["inputs"]] == ["seeds.orders"]
    (output,) = done["outputs"]
    assert output["facets"]["version"]["datasetVersion"] == "7"
    assert output["facets"]["symlinks"]["identifiers"][0]["namespace"] == "s3://bucket"
    lineage = output["facets"]["columnLineage"]
    made_of = {c: [f["field"] for f in fields["inputFields"]] for c, fields in lineage["fields"].items()}
    assert made_of == {"customer": ["customer"], "total": ["amount"]}
    assert sorted(field["field"] for field in lineage["dataset"]) == ["customer", "id"]
    assert failed["run"]["facets"]["errorMessage"]["message"] == "error[SQB-B001]: no space left"
    assert failed["outputs"][0]["facets"] == {}


class Server(HTTPServer):
    """Takes events, as a server of lineage does."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.status = 201
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/api/v1/lineage"
        self.server.bodies.append(json.loads(body))
        self.server.keys.add(self.headers["Authorization"])
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("where", ["variable", "setting", "file"])
def test_to_a_server(project: Path, server: Server, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret")
    (project / "sqlbuild_project.toml").write_text('name = "shop"\n')
    match where:
        case "variable":
            # The client copies them into variables of its own.
            for name in ("TYPE", "URL", "AUTH"):
                monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__TRANSPORTS__DEFAULT_HTTP__{name}", "")
                monkeypatch.delenv(f"OPENLINEAGE__TRANSPORT__TRANSPORTS__DEFAULT_HTTP__{name}")
            monkeypatch.setenv("OPENLINEAGE_URL", url)
        case "setting":
            (project / "sqlbuild_project.toml").write_text(f'name = "shop"\n[openlineage]\nurl = "{url}"\n')
        case "file":
            auth = "{type: api_key, apiKey: secret}"
            (project / "openlineage.yml").write_text(f"transport: {{type: http, url: '{url}', auth: {auth}}}\n")
    assert run(["build", "-s", "orders"]) == 0
    assert len(server.bodies) == 4 and server.keys == {"Bearer secret"}
    assert {event["job"]["namespace"] for event in server.bodies} == {"sqb"}
    assert server.bodies[2]["outputs"][0]["namespace"] == f"sqlite://{project}/lake/catalog.db"


def test_a_server_that_refuses_is_a_notice(
    project: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status = 400
    url = f"http://127.0.0.1:{server.server_port}"
    (project / "sqlbuild_project.toml").write_text(f'name = "shop"\n[openlineage]\nurl = "{url}"\n')
    assert run(["build", "-s", "orders"]) == 0
    (note,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note:")]
    assert note.startswith("note: OpenLineage: not everything of this run could be sent: 400 Client Error")
    # After three refusals it is left alone.
    assert len(server.bodies) == 3


def test_what_is_missing_is_named_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(["build", "-s", "orders"]) == 0
    assert (
        "note: OpenLineage is set up, and the package openlineage-python is not installed: "
        "pip install 'sqb-spark[openlineage]'\n"
    ) in capsys.readouterr().out


def test_on_without_a_place_is_a_notice(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "sqlbuild_project.toml").write_text('name = "shop"\n[openlineage]\nenabled = true\n')
    assert run(["build", "-s", "orders"]) == 0
    assert "note: OpenLineage: it is on, and nothing says where events go: set OPENLINEAGE_URL" in (
        capsys.readouterr().out
    )


def test_who_is_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = open_workspace(project)
    assert list_asked(workspace) == ["openlineage"]
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert list_asked(workspace) == []
    monkeypatch.delenv("OPENLINEAGE_DISABLED")
    (project / "sqlbuild_project.toml").write_text('name = "shop"\n')
    workspace = open_workspace(project)
    assert list_asked(workspace) == []
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "console")
    assert list_asked(workspace) == ["openlineage"]
    (project / "sqlbuild_project.toml").write_text('name = "shop"\n[openlineage]\nenabled = false\n')
    assert list_asked(open_workspace(project)) == []


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('url = "ftp://x"', "`url` must be an address that begins with http:// or https://", None),
        ('url = "https://me:pw@x"', "`url` holds a secret", "put the key into OPENLINEAGE_API_KEY"),
        ('file = " "', '`file` must be a file, not " "', None),
        ("enabled = 1", "`enabled` must be true or false, not 1", None),
    ],
)
def test_settings_that_are_wrong(tmp_path: Path, text: str, message: str, hint: str | None) -> None:
    write(tmp_path, {"sqlbuild_project.toml": f'name = "shop"\n[openlineage]\n{text}\n'})
    load_config(tmp_path, errors := Errors())
    (error,) = errors.found
    assert isinstance(error, SqbError)
    assert (error.code, error.message, error.hint, error.at and error.at.line) == ("SQB-P003", message, hint, 3)


def test_names_of_catalogs_and_places() -> None:
    assert name_catalog(LakeLocation(uri="postgresql://me:pw@db:5433/lake")) == "postgres://db:5433/lake"
    assert name_catalog(LakeLocation(type="rest", uri="https://catalog.example/api/")) == "https://catalog.example/api"
    assert name_catalog(LakeLocation(type="hive", uri="thrift://metastore:9083")) == "hive://metastore:9083"
    assert name_catalog(LakeLocation(type="glue", warehouse="s3://bucket/w")) == "s3://bucket/w"
    assert name_location("s3a://bucket/w/t") == ("s3://bucket", "w/t")
    assert name_location("/lake/data/t/") == ("file", "/lake/data/t")
