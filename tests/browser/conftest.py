"""A real browser: Chromium of the distribution, driven without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqb.docs_site.write import write_site
from support.docs_project import collect_example
from support.required import missing

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium with an empty profile, which tells of every request and of every message on its console."""
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        missing("no Chromium with a chromedriver on this machine: install chromium and chromium-driver")
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    opened = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    opened.set_page_load_timeout(60)
    opened.set_script_timeout(60)
    yield opened
    opened.quit()


@pytest.fixture(scope="session")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The example with a history, environments, and texts that are markup."""
    return collect_example(tmp_path_factory.mktemp("example") / "shop")


@pytest.fixture(scope="session")
def site(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's pages."""
    folder = tmp_path_factory.mktemp("site")
    write_site(document, folder)
    return folder


@pytest.fixture(scope="session")
def make_example() -> Any:
    """Makes the example in a folder: its root and its document."""
    return lambda folder: (folder / "shop", collect_example(folder / "shop"))
