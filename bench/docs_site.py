"""What `sqb docs build` costs, with and without caches, and how its first page behaves in a browser.

The projects are those of `layered.py`, built without Java (`built_lake.py`). The page is opened from disk in a headless
Chromium: when its graph is drawn, counted from the start of the navigation, and how long a frame takes while the mouse
drags it or its wheel turns. Without Chromium and a chromedriver only the command is measured.
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
# The caches as the build left them.
LEFT_BY_BUILD = Path(".sqb") / "cache-of-build"
# Notes the milliseconds between two frames until it is told to stop.
RECORD = """const frames = window.benchFrames = [];
window.benchStop = false;
let last = performance.now();
requestAnimationFrame(function next(now) {
  frames.push(now - last);
  last = now;
  if (!window.benchStop) requestAnimationFrame(next);
});"""
_NEAR = "const node = view.nodes[view.nodes.length >> 1]; view.look(0.8, node.x, node.y)"
# Where the view begins, and what the mouse does: steps of a drag, or turns of the wheel.
GESTURES = {
    "drag, the whole graph": ("view.fit()", "drag"),
    "drag, names readable": (_NEAR, "drag"),
    "wheel, from the whole": ("view.fit()", "wheel"),
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
                shutil.copytree(root / ".sqb" / "cache", root / LEFT_BY_BUILD)
            measure_command(root, models, arguments.rounds)
            measure_page(root / ".sqb" / "docs", models, arguments.rounds)


def measure_command(root: Path, models: int, rounds: int) -> None:
    """`sqb docs build` with nothing known, with what a build knows, after an edit, and when nothing changed."""
    files = sorted(root.glob("models/*/*.sql"))

    def forget() -> None:
        shutil.rmtree(root / ".sqb" / "cache", ignore_errors=True)
        shutil.rmtree(root / ".sqb" / "docs", ignore_errors=True)

    def forget_pages() -> None:
        forget()
        shutil.copytree(root / LEFT_BY_BUILD, root / ".sqb" / "cache")

    for name, prepare in (
        ("without a cache", forget),
        ("after a build", forget_pages),
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
        opened = [open_page(browser, folder) for _ in range(rounds)]
        drawn, seconds = (min(figures) for figures in zip(*opened, strict=True))
        print(f"{models} models  the graph is drawn after {drawn:.0f} ms, {seconds:.2f} CPU-s", flush=True)
        for name, (before, gesture) in GESTURES.items():
            browser.execute_script(f"const view = SqbGraph.view; {before}")
            time.sleep(0.5)
            frames, seconds = record_frames(browser, gesture)
            middle, late = statistics.median(frames), sum(frame > 50 for frame in frames)
            print(
                f"{models} models  {name:22} median {middle:.0f} ms a frame, {late} of {len(frames)} over 50 ms, "
                f"longest {max(frames):.0f} ms, {seconds:.2f} CPU-s",
                flush=True,
            )
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


def open_page(browser: Any, folder: Path) -> tuple[float, float]:
    """Open the first page anew: the milliseconds until its graph was shown, and the page's processor time."""
    browser.get("about:blank")
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    before = read_task_seconds(browser)
    browser.get(f"{folder.as_uri()}/index.html")
    until = time.monotonic() + 60
    while not browser.execute_script("return document.body.dataset.ready === 'graph' && SqbGraph.shownAt > 0"):
        if time.monotonic() > until:
            raise TimeoutError("the graph was not drawn within a minute")
        time.sleep(0.02)
    return browser.execute_script("return SqbGraph.shownAt"), read_task_seconds(browser) - before


def read_task_seconds(browser: Any) -> float:
    """The processor time of the page's main thread."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def record_frames(browser: Any, gesture: str) -> tuple[list[float], float]:
    """The milliseconds of each frame while the mouse does something, and the page's processor time."""
    before = read_task_seconds(browser)
    browser.execute_script(RECORD)
    place = {"x": 500, "y": 500}

    def send(kind: str, **more: Any) -> None:
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **place, **more})

    if gesture == "drag":
        send("mousePressed", button="left", buttons=1, clickCount=1)
        for _ in range(40):
            place = {"x": place["x"] - 6, "y": place["y"] + 2}
            send("mouseMoved", button="left", buttons=1)
        send("mouseReleased", button="left", clickCount=1)
    else:
        for _ in range(20):
            send("mouseWheel", deltaX=0, deltaY=-60)
    time.sleep(0.5)
    browser.execute_script("window.benchStop = true")
    frames: list[float] = browser.execute_script("return benchFrames.slice(1)")
    return frames, read_task_seconds(browser) - before


if __name__ == "__main__":
    os.environ["SQB_ENGINE"] = "off"
    main()
