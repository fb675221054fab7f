"""A command without Spark in its own process, and handed to a worker of the engine: processor time and waiting.

The project is one seed. Needs no Java, so it can be run on a busy machine: compare the two sides, and processor time.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from noop import markdown, table

HEADINGS = ("command", "done by", "median s", "client's CPU s", "worker's CPU s")
CLIENT = (sys.executable, "-c", "from sqb.cli.entry import main; main()")
BARE = (sys.executable, "-c", "pass")


def measure(command: tuple[str, ...], folder: Path, workers: int, mode: str) -> tuple[float, float, float]:
    """Seconds of waiting, and of processor time of the command and of the worker."""
    before, worker, began = resource.getrusage(resource.RUSAGE_CHILDREN), children_cpu(workers), time.monotonic()
    environment = {**os.environ, "SQB_ENGINE": mode}
    subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )
    waited = time.monotonic() - began
    # The worker is counted when it has been waited for.
    time.sleep(0.3)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return waited, own, children_cpu(workers) - worker


def children_cpu(pid: int) -> float:
    """The processor time of the children that a process has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def run(folder: Path, repeats: int) -> list[tuple[str, ...]]:
    """All lines of the result."""
    seed = folder / "seeds" / "a.csv"
    seed.parent.mkdir()
    seed.write_text("id\n0\n")
    (folder / "sqlbuild_project.toml").write_text('name = "hand_over"\n')
    (folder / ".sqb").mkdir()
    workers = subprocess.Popen([sys.executable, "-P", "-m", "sqb.cli.zygote", str(folder)], stdin=subprocess.PIPE)
    assert workers.stdin is not None
    while not (folder / ".sqb" / "engine.sock").exists():
        time.sleep(0.1)
    build, rows, number = (*CLIENT, "build"), [], 0
    measure(build, folder, workers.pid, "off")
    for name, changes in (("build, nothing changed", False), ("build, one seed changed", True)):
        for label, mode in (("its own process", "off"), ("a worker", "auto")):
            runs = []
            for _ in range(repeats):
                number += 1
                if changes:
                    seed.write_text(f"id\n{number}\n")
                runs.append(measure(build, folder, workers.pid, mode))
            rows.append((name, label, *(f"{statistics.median(part):.2f}" for part in zip(*runs, strict=True))))
    bare = [measure(BARE, folder, workers.pid, "off") for _ in range(repeats)]
    rows.append(("python -c pass", "", *(f"{statistics.median(part):.2f}" for part in zip(*bare, strict=True))))
    workers.stdin.close()
    workers.wait()
    return rows


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sqb-bench-") as folder:
        rows = run(Path(folder).resolve(), arguments.repeats)
    print(table(HEADINGS, rows))
    print(f"\n{markdown(f'bench/hand_over.py --repeats {arguments.repeats}', HEADINGS, rows)}")


if __name__ == "__main__":
    main()
