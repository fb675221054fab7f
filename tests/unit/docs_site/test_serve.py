"""The server of the pages: what it sends, to whom, and that pages are renewed when files change."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sqb.docs_site.serve import EVENTS, Changes, compute_stamp, serve_site, watch
from sqb.errors.call import CallError
from sqb.operations.docs import DocsOptions, build_docs
from sqb.operations.init import create_project
from sqb.workspace import Workspace, open_workspace
from support.docs_project import add_history, make_runs


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("served") / "shop"
    create_project(root)
    return open_workspace(root)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "nodes").mkdir()
    (folder / "index.html").write_text("<body>first</body>")
    (folder / "nodes/a.html").write_text("<body>node</body>")
    (folder / "data.js").write_text("data")
    (folder.parent / "outside.txt").write_text("outside")
    return folder


@contextmanager
def run_server(workspace: Workspace, site: Path, rebuild: Callable[[], None]) -> Iterator[int]:
    """A server as `sqb docs serve` runs it, on a port that is free; it ends with the daemon thread."""
    addresses: list[str] = []
    arguments = (workspace, site, 0, rebuild, addresses.append, lambda text: None, None, 0.05)
    threading.Thread(target=serve_site, args=arguments, daemon=True).start()
    until = time.monotonic() + 20
    while not addresses:
        assert time.monotonic() < until
        time.sleep(0.01)
    yield int(addresses[0].rstrip("/").rpartition(":")[2])


@pytest.fixture(scope="module")
def port(workspace: Workspace, site: Path) -> Iterator[int]:
    with run_server(workspace, site, lambda: None) as port:
        yield port


def ask(port: int, path: str, host: str | None = None) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Host": host} if host is not None else {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


@pytest.mark.parametrize(("path", "text"), [("/", "first"), ("/index.html?x=1", "first"), ("/nodes/a.html", "node")])
def test_pages_wait_for_the_next_change(port: int, path: str, text: str) -> None:
    status, body, headers = ask(port, path)
    assert status == 200 and body == f'<body>{text}<script src="/assets/live.js"></script></body>'
    assert headers["Content-Type"] == "text/html; charset=utf-8" and headers["Cache-Control"] == "no-cache"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_other_files_are_sent_as_they_are(port: int) -> None:
    assert ask(port, "/data.js")[:2] == (200, "data")
    assert ask(port, "/nothing.html")[0] == ask(port, "/nothing.js")[0] == 404


@pytest.mark.parametrize(
    "path", ["/../outside.txt", "/%2e%2e/outside.txt", "/nodes/../../outside.txt", "//outside.txt"]
)
def test_nothing_outside_of_the_folder_is_sent(port: int, path: str) -> None:
    assert ask(port, path)[0] == 404


def test_pages_of_elsewhere_are_refused(port: int) -> None:
    """A name of another site that leads to this machine does not open the pages to that site's scripts."""
    assert ask(port, "/", "evil.example.com:80")[0] == ask(port, EVENTS, "evil.example.com:80")[0] == 403
    assert ask(port, "/", f"localhost:{port}")[0] == 200


def test_all_browsers_hear_of_a_change_and_of_what_keeps_pages_from_being_renewed(tmp_path: Path, site: Path) -> None:
    create_project(tmp_path / "shop")
    workspace, rebuilt = open_workspace(tmp_path / "shop"), []

    def rebuild() -> None:
        rebuilt.append(1)
        if len(rebuilt) == 2:
            raise CallError("line one\nline two")

    with run_server(workspace, site, rebuild) as port:
        browsers = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(2)]
        for browser in browsers:
            browser.request("GET", EVENTS)
        answers = [browser.getresponse() for browser in browsers]
        assert {answer.headers["Content-Type"] for answer in answers} == {"text/event-stream"}
        model = workspace.root / "models/staging/stg_orders.sql"
        # The watcher may just begin: the file is changed until it has seen one.
        while not rebuilt:
            model.write_text(model.read_text() + "\n")
            time.sleep(0.2)
        expected = [b"event: change\n", b"data:\n", b"\n"]
        assert [[answer.readline() for _ in range(3)] for answer in answers] == [expected] * 2
        while len(rebuilt) < 2:
            model.write_text(model.read_text() + "\n")
            time.sleep(0.2)
        first = answers[0].readline()
        while first != b"event: problem\n":
            first = answers[0].readline()
        assert answers[0].readline() + answers[0].readline() == b"data: line one\ndata: line two\n"


def test_a_mistake_of_any_kind_does_not_end_the_watching(tmp_path: Path) -> None:
    create_project(tmp_path / "shop")
    changes, calls = Changes(), []
    workspace = open_workspace(tmp_path / "shop")

    def rebuild() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("vanished")
        changes.end()

    arguments = (workspace, rebuild, changes, lambda text: None, None, 0.02)
    watching = threading.Thread(target=watch, args=arguments, daemon=True)
    watching.start()
    until = time.monotonic() + 30
    while watching.is_alive() and time.monotonic() < until:
        (tmp_path / f"shop/models/staging/new_{len(calls)}.sql").write_text(f"SELECT {time.monotonic()} AS x")
        time.sleep(0.05)
    assert not watching.is_alive() and len(calls) == 2


def test_what_changed_before_the_watching_began_is_noticed(tmp_path: Path) -> None:
    create_project(tmp_path / "shop")
    changes, workspace = Changes(), open_workspace(tmp_path / "shop")
    known = compute_stamp(workspace)
    (tmp_path / "shop/models/staging/new.sql").write_text("SELECT 1 AS x")
    watch(workspace, changes.end, changes, lambda text: None, known, 0.01)


def test_only_what_pages_depend_on_is_watched(tmp_path: Path) -> None:
    create_project(tmp_path / "shop")
    workspace = open_workspace(tmp_path / "shop")
    before = compute_stamp(workspace)
    (tmp_path / "shop/.sqb/docs").mkdir(parents=True)
    (tmp_path / "shop/.sqb/docs/index.html").write_text("x")
    assert compute_stamp(workspace) == before
    (tmp_path / "shop/models/staging/new.sql").write_text("SELECT 1 AS x")
    after = compute_stamp(workspace)
    assert after != before
    (tmp_path / "shop/models/staging/new.sql").unlink()
    assert compute_stamp(workspace) == before


def test_pages_in_the_folder_of_the_project_are_not_watched(tmp_path: Path) -> None:
    create_project(tmp_path / "shop")
    workspace = open_workspace(tmp_path / "shop")
    before = compute_stamp(workspace)
    options = DocsOptions(output=workspace.root / "public")
    build_docs(workspace, options)
    assert compute_stamp(workspace) == before
    build_docs(workspace, options)
    assert compute_stamp(workspace) == before


def test_tables_are_watched(tmp_path: Path) -> None:
    create_project(tmp_path / "shop")
    workspace = open_workspace(tmp_path / "shop")
    before = compute_stamp(workspace)
    add_history(workspace, make_runs(workspace.root))
    after = compute_stamp(workspace)
    add_history(workspace, make_runs(workspace.root)[:1])
    assert len({before, after, compute_stamp(workspace)}) == 3


def test_a_port_that_is_taken_is_named(workspace: Workspace, site: Path, port: int) -> None:
    with pytest.raises(CallError, match=f"port {port} cannot be used") as raised:
        serve_site(workspace, site, port, lambda: None, lambda text: None, lambda text: None)
    assert "--port" in (raised.value.hint or "")
