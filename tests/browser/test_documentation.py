"""The documentation in a real browser: search finds pages, narrow windows fit, nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.required import missing

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-docs" / "bin" / "python"
_RESULTS = "return [...document.querySelectorAll('.md-search-result__link')].map(link => link.pathname)"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the site is served: search needs a server."""
    if not PYTHON.exists():
        missing("MkDocs is not installed: scripts/docs_env.py makes .venv-docs")
    folder = tmp_path_factory.mktemp("docs")
    command = [str(PYTHON), str(ROOT / "scripts" / "build_docs.py"), "--into", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder / "site"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def list_requests(browser: Any) -> set[str]:
    """The addresses that pages asked for since this was called last."""
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    return {address for address in asked if address.startswith(("http:", "https:", "ws"))}


def test_search_finds_pages_and_asks_only_its_own_server(browser: Any, address: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(f"{address}/index.html?q=rollback")
    paths = WebDriverWait(browser, 60).until(lambda b: b.execute_script(_RESULTS))
    assert "/docs/promotion.html" in paths
    requests = list_requests(browser)
    assert requests and {request for request in requests if not request.startswith(f"{address}/")} == set()
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize("page", ["index", "docs/comparison", "docs/tutorials/star", "docs/reference-keys"])
def test_pages_fit_narrow_windows(browser: Any, address: str, page: str) -> None:
    browser.set_window_size(400, 900)
    try:
        browser.get(f"{address}/{page}.html")
        width, room = browser.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert width <= room
    finally:
        browser.set_window_size(1280, 900)


def test_the_recording_is_shown(browser: Any, address: str) -> None:
    browser.get(f"{address}/index.html")
    find = "return document.querySelector('img[src$=\"terminal.svg\"]').naturalWidth"
    assert browser.execute_script(find) > 0
