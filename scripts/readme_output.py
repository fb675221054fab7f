"""Write what the commands of README.md print into README.md, by running them on the example project.

A block that begins with `$ ` is a dialogue: its commands are run one after the other, in the folder that `sqb init`
makes once that has run. With --check nothing is written, and the script fails where the README says something else.
Times differ from run to run, and so does the order in which models that run at once are done: neither is compared.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
_BLOCK = re.compile(r"^```\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\b(?:\d+m )?\d+(?:\.\d+)?m?s\b")
_HASH = re.compile(r"\b[0-9a-f]{8}\b")
_NODE = re.compile(r"\[[A-Z]+\] ")

# Runs a command in a folder and gives all that it printed.
Run = Callable[[str, Path], str]


@dataclass(frozen=True, slots=True)
class Said:
    """A command and what it printed."""

    command: str
    output: str

    def __str__(self) -> str:
        return f"$ {self.command}\n{self.output}"


def read_dialogue(block: str) -> list[Said]:
    """The commands of a block and what it says that they print."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    return [Said(command, output) for command, output in zip(parts[1::2], parts[2::2], strict=True)]


def run_readme(text: str, folder: Path, run: Run, *, with_times: bool = False) -> str:
    """The README with what its commands print now; they run in `folder`, one after the other.

    A block that differs in its times alone stays as it is, unless the times are wanted.
    """

    def replace(block: re.Match[str]) -> str:
        nonlocal folder
        done: list[Said] = []
        for said in read_dialogue(block[1]):
            done.append(Said(said.command, run(said.command, folder)))
            if said.command.startswith("sqb init "):
                folder = folder / said.command.split()[-1]
        now = "".join(map(str, done))
        return f"```\n{now}```" if with_times or mask(now) != mask(block[1]) else block[0]

    return _BLOCK.sub(replace, text)


def mask(text: str) -> str:
    """A text without what differs from run to run: times, hashes, and the order in which nodes are done."""
    lines = _HASH.sub("<hash>", _TIME.sub("<time>", text)).splitlines()
    result: list[str] = []
    nodes: list[str] = []
    for line in lines:
        # What a build says of other things, as of unit tests, stands somewhere among its nodes.
        if _NODE.match(line) or (nodes and line.startswith("Unit tests: ")):
            nodes.append(line)
            continue
        result += [*sorted(nodes), line]
        nodes = []
    return "\n".join([*result, *sorted(nodes), ""])


def compare(written: str, now: str) -> str:
    """What the README says and what is printed now, as a diff; empty where they agree."""
    before, after = mask(written).splitlines(), mask(now).splitlines()
    return "\n".join(difflib.unified_diff(before, after, "README.md", "printed now", lineterm=""))


def run_in_shell(command: str, folder: Path) -> str:
    """Run a command as a user types it, with the `sqb` of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "NO_COLOR": "1", "SQB_ENGINE": "off"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=env, encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.stdout


def main() -> int:
    """Read the arguments, run the commands, write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where the README differs")
    parser.add_argument("--times", action="store_true", help="write the times of today too, from a quiet machine")
    arguments = parser.parse_args()
    written = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="sqb-readme-") as folder:
        now = run_readme(written, Path(folder), run_in_shell, with_times=arguments.times)
    if not arguments.check:
        README.write_text(now, encoding="utf-8")
        return 0
    difference = compare(written, now)
    print(difference, end="\n" if difference else "")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
