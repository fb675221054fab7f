"""What `sqb docs build` costs, with and without a cache, and how its first page behaves in a browser.

The projects are those of `layered.py`, built without Java (`built_lake.py`). The page is opened from disk in a headless
Chromium: when its graph is drawn, counted from the start of the navigation, and how long a frame of a pan and of a zoom
takes. Without Chromium and a chromedriver only the command is measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from built_lake import build_without_java
from layered import edit, write_project
from validate import run

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)
# Steps of a gesture: each is drawn before the next, and what is returned are the milliseconds between two frames.
FRAMES = """const done = arguments[0], cy = SqbGraph.cy, frames = [];
let step = 0, last = performance.now();
function next(now) {
  frames.push(now - last);
  last = now;
  if (step++ === 40) return done(frames.slice(1));
  GESTURE
  requestAnimationFrame(next);
}
requestAnimationFrame(next);"""
GESTURES = {
    "pan, the whole graph": ("cy.fit()", "cy.panBy({x: 6, y: 2});"),
    "pan, names readable": ("cy.zoom(0.8); cy.center(cy.nodes()[cy.nodes().length >> 1])", "cy.panBy({x: -6, y: 2});"),
    "zoom in": ("cy.fit()", "cy.zoom({level: cy.zoom() * 1.06, renderedPosition: {x: 400, y: 300}});"),
}


def main() -> None:
    """Print one line for each figure."""
    parser = argparse.ArgumentParser(description="Measure sqb docs build and the page it makes.")
    parser.add_argument("--models", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the projects are made, and found again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for models in arguments.models:
            root = (arguments.folder or Path(temporary)) / f"project_{models}"
            if not root.exists():
                write_project(root, models)
                build_without_java(root)
            measure_command(root, models, arguments.rounds)
            measure_page(root / ".sqb" / "docs", models, arguments.rounds)


def measure_command(root: Path, models: int, rounds: int) -> None:
    """`sqb docs build` with nothing known, after an edit, and when nothing changed."""
    files = sorted(root.glob("models/*/*.sql"))

    def forget() -> None:
        shutil.rmtree(root / ".sqb" / "cache", ignore_errors=True)
        shutil.rmtree(root / ".sqb" / "docs", ignore_errors=True)

    for name, prepare in (
        ("without a cache", forget),
        ("one model edited", lambda: edit(files[len(files) // 2])),
        ("nothing changed", lambda: None),
    ):
        runs = []
        for _ in range(rounds):
            prepare()
            runs.append(run(root, ["docs", "build"]))
        cpu, clock = (min(seconds) for seconds in zip(*runs, strict=True))
        print(f"{models} models  docs build, {name:18} {cpu:.2f} CPU-s {clock:.2f} s", flush=True)


def measure_page(folder: Path, models: int, rounds: int) -> None:
    """The first page: when its graph is drawn, and the frames of gestures."""
    browser = open_browser()
    if browser is None:
        print("no Chromium with a chromedriver: the page was not opened")
        return
    try:
        drawn = [open_page(browser, folder) for _ in range(rounds)]
        print(f"{models} models  the graph is drawn after {min(drawn):.0f} ms", flush=True)
        for name, (before, step) in GESTURES.items():
            browser.execute_script(f"const cy = SqbGraph.cy; {before}")
            frames = browser.execute_async_script(FRAMES.replace("GESTURE", step))
            middle, worst = statistics.median(frames), max(frames)
            print(f"{models} models  {name:22} median {middle:.0f} ms a frame, longest {worst:.0f} ms", flush=True)
    finally:
        browser.quit()


def open_browser() -> Any:
    """Chromium without a window, or None where it is not installed."""
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        return None
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


def open_page(browser: Any, folder: Path) -> float:
    """Open the first page anew: the milliseconds until its graph is drawn and a frame of it was shown."""
    browser.get("about:blank")
    browser.get(f"{folder.as_uri()}/index.html")
    until = time.monotonic() + 60
    while not browser.execute_script("return document.body.dataset.ready === 'graph' && SqbGraph.shownAt > 0"):
        if time.monotonic() > until:
            raise TimeoutError("the graph was not drawn within a minute")
        time.sleep(0.02)
    milliseconds: float = browser.execute_script("return SqbGraph.shownAt")
    return milliseconds


if __name__ == "__main__":
    os.environ["SQB_ENGINE"] = "off"
    main()
