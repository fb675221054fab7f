"""`sqb docs build` and `sqb docs serve`, as commands."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from sqb.cli.main import run
from support.docs_project import write_docs_project


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_docs_project(tmp_path / "shop")


def test_build_writes_pages_and_says_where(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "build", "--project-dir", str(shop)]) == 0
    out = capsys.readouterr().out
    assert re.match(r"\d+ pages in .*\.sqb/docs/index\.html \(", out)
    assert (shop / ".sqb/docs/nodes/marts.fct_orders.html").is_file()
    assert run(["docs", "build", "--project-dir", str(shop), "-o", str(shop / "public"), "--sample"]) == 0
    assert (shop / "public/index.html").is_file()


def test_json_is_the_document_and_writes_nothing(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "build", "--json", "--project-dir", str(shop)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sqb_docs"] == 1 and "marts.fct_orders" in document["nodes"]
    assert not (shop / ".sqb/docs").exists()


def test_a_folder_of_others_is_refused(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "build", "--project-dir", str(shop), "--output", str(shop / "models")]) == 2
    assert "did not write" in capsys.readouterr().err and (shop / "models/marts/fct_orders.sql").is_file()


def test_mistakes_are_on_the_page_of_the_plan(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = shop / "models/marts/product_sales.sql"
    model.write_text("SELECT no_such_column FROM stg_products\n", encoding="utf-8")
    assert run(["docs", "build", "--project-dir", str(shop)]) == 0
    page = (shop / ".sqb/docs/plan.html").read_text(encoding="utf-8")
    assert "Mistakes that keep a build from running" in page and "no_such_column" in page


def test_neither_java_nor_pyspark_is_needed(shop: Path) -> None:
    code = "import sys; from sqb.cli.main import run; sys.exit(run(['docs', 'build']) or 'pyspark' in sys.modules)"
    environment = {**os.environ, "PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    subprocess.run([sys.executable, "-c", code], cwd=shop, env=environment, check=True, capture_output=True)


def test_serve_renews_pages_and_tells_browsers(shop: Path) -> None:
    code = "import sys; from sqb.cli.main import run; sys.exit(run(['docs', 'serve', '--port', '0']))"
    command = [sys.executable, "-c", code]
    server = subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        match = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())
        assert match is not None
        address = match[0]
        with urlopen(f"{address}nodes/marts.fct_orders.html") as page:
            text = page.read().decode()
        assert "One row per order" in text and "live.js" in text
        other = Request(address, headers={"Host": "evil.example"})
        with pytest.raises(OSError, match="403"):
            urlopen(other)
        with urlopen(f"{address}sqb-events", timeout=120) as events:
            model = shop / "models/marts/fct_orders.sql"
            model.write_text(model.read_text(encoding="utf-8").replace("One row per order", "A line per order"))
            while not (line := events.readline()).startswith(b"event: change"):
                assert line != b"", "the server ended"
        with urlopen(f"{address}nodes/marts.fct_orders.html") as page:
            assert "A line per order" in page.read().decode()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)
    assert server.returncode == 0


def test_a_port_that_is_taken_is_told(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["docs", "serve", "--port", str(port), "--project-dir", str(shop)]) == 2
    assert f"port {port} cannot be used" in capsys.readouterr().err
