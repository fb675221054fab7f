"""Write what the commands of the documentation print into its pages, by running them.

Every page is a story. The README, getting started and the tutorials begin in an empty folder, all other pages of docs/
in the example project, which is built once. The blocks of a page are carried out in their order:

- a block that begins with `$ ` is a dialogue: its commands run one after the other; `cd` moves the story to another
  folder, and a command that ends with `&` runs until the story ends. A line `…` in an output is any number of lines;
- a block with a `title` is a file: it is written to the folder of the story;
- a block whose title begins with `Illustration: ` is left alone. The title says why it cannot be run.

8123 in a page stands for any free port. With --check nothing is written, and the script fails where a page says
something else. Times, ids, hashes and versions differ from run to run, and so does the order in which models that run
at once are done: none of these is compared.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, DOCS / "getting-started.md", DOCS / "backups.md", *sorted((DOCS / "tutorials").glob("*.md")))
ILLUSTRATION = "Illustration: "
_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_PORT = "8123"
_PORT_SECONDS = 20
# What differs from run to run, and what stands for it in a comparison.
_MASKS = (
    (re.compile(r"\b\d{8}_\d{6}_[0-9a-f]{6}\b"), "<run>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<moment>"),
    (re.compile(r"\b(?:\d+m )?\d+(?:\.\d+)?m?s\b"), "<time>"),
    (re.compile(r"\b\d+ (?:second|minute)s? ago\b|\bjust now\b"), "<time>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"), "<hash>"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:bytes|[kMG]B)\b"), "<size>"),
    (re.compile(r"\bsqb \d+\.\d+\.\d+\S*"), "sqb <version>"),
)
_GAP = re.compile(r"(?<=\S) {2,}")
_LEFT_OUT = "…"
_NODE = re.compile(r"\[[A-Z]+\] ")

# Runs a command in a folder and gives all that it printed.
Run = Callable[[str, Path], str]


def list_guides() -> list[Path]:
    """The pages that begin in the example project: those with a dialogue that are not a story from an empty folder."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    return [page for page in pages if page not in PAGES and _has_dialogue(page.read_text(encoding="utf-8"))]


def _has_dialogue(text: str) -> bool:
    return any(is_dialogue(block) for block in _BLOCK.finditer(text))


@dataclass(frozen=True, slots=True)
class Step:
    """A command and what it printed."""

    command: str
    output: str

    def __str__(self) -> str:
        return f"$ {self.command}\n{self.output}"


@dataclass
class Story:
    """Where a page is: its folder, the port that it uses, and what it has left running."""

    folder: Path
    run: Run
    root: Path = field(init=False)
    port: str = field(init=False)
    running: list[subprocess.Popen[bytes]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.root, self.port = self.folder, str(_find_free_port())

    def run_command(self, command: str) -> str:
        """Carry out one line of a dialogue and give what it printed, as the page would have it."""
        command = command.replace(_PORT, self.port)
        if command.startswith("cd "):
            self.folder = self.folder / command.removeprefix("cd ").strip()
            return ""
        if command.endswith("&"):
            self._leave_running(command)
            return ""
        output = self.run(command, self.folder)
        return output.replace(self.port, _PORT).replace(f"{self.root}/", "").replace(str(self.root), ".")

    def write(self, path: str, text: str) -> None:
        """Write a file of the page."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace(_PORT, self.port), encoding="utf-8")

    def _leave_running(self, command: str) -> None:
        started = subprocess.Popen(
            command.rstrip("& "),
            shell=True,
            cwd=self.folder,
            env=_shell_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.running.append(started)
        if self.port in command:
            _wait_for_port(int(self.port))

    def end(self) -> None:
        """End what the page has left running."""
        for process in self.running:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def read_dialogue(block: str) -> list[Step]:
    """The commands of a block and what it says that they print."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    return [Step(command, output) for command, output in zip(parts[1::2], parts[2::2], strict=True)]


def run_page(text: str, folder: Path, run: Run, *, with_times: bool = False) -> str:
    """The page with what its commands print now; they run in `folder`, one after the other.

    A block that differs in its times alone stays as it is, unless the times are wanted.
    """
    with _tell_story(folder, run) as story:

        def replace(block: re.Match[str]) -> str:
            title = _TITLE.search(block["info"])
            if title is not None and not title[1].startswith(ILLUSTRATION):
                story.write(title[1], block["body"])
            if not is_dialogue(block):
                return block[0]
            written = read_dialogue(block["body"])
            now = [_with_gaps(step, story.run_command(step.command), with_times) for step in written]
            same = all(mask(str(a)) == mask(str(b)) for a, b in zip(written, now, strict=True))
            return block[0] if same and not with_times else f"```{block['info']}\n{''.join(map(str, now))}```"

        return _BLOCK.sub(replace, text)


def is_dialogue(block: re.Match[str]) -> bool:
    """Whether a block is carried out."""
    return block["body"].startswith("$ ") and _TITLE.search(block["info"]) is None


def _with_gaps(written: Step, output: str, with_times: bool) -> Step:
    """The step with what it prints now; where it leaves lines out and has the others, only their times are new."""
    lines, printed = mask(written.output).splitlines(), mask(output).splitlines()
    if _LEFT_OUT not in lines:
        return Step(written.command, output)
    # Below nodes it stands for other nodes, which are done before, between and after those.
    after_nodes = {i for i in range(1, len(lines)) if lines[i] == _LEFT_OUT and _NODE.match(lines[i - 1])}
    if after_nodes:
        printed = [line for line in printed if not _NODE.match(line) or line in lines]
        lines = [line for i, line in enumerate(lines) if i not in after_nodes]
    pattern = "".join("(?:.*\\n)*?" if line == _LEFT_OUT else re.escape(f"{line}\n") for line in lines)
    if not re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)):
        return Step(written.command, output)
    return Step(written.command, _renew_lines(written.output, output)) if with_times else written


def _renew_lines(written: str, output: str) -> str:
    """The lines that are written, each as it is printed now."""
    printed = {mask(line): line for line in reversed(output.splitlines())}
    return "".join(f"{printed.get(mask(line), line)}\n" for line in written.splitlines())


def prepare_example(folder: Path, run: Run) -> Path:
    """The example project below `folder`, as it was when it was built: put back in place, since a lake cannot move."""
    project, saved = folder / "shop", folder / "saved"
    if not saved.exists():
        for command, place in (("sqb init shop", folder), ("sqb build", project)):
            output = run(command, place)
            if "error[" in output or "[FAIL]" in output:
                raise RuntimeError(f"`{command}` failed:\n{output}")
        shutil.copytree(project, saved)
        return project
    shutil.rmtree(project)
    shutil.copytree(saved, project)
    return project


def _prepare_folders(pages: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Each page with the folder that it begins in."""
    with tempfile.TemporaryDirectory(prefix="sqb-docs-") as folder:
        for i, page in enumerate(pages):
            if page not in PAGES:
                yield page, prepare_example(Path(folder), run_in_shell)
                continue
            (Path(folder) / str(i)).mkdir()
            yield page, Path(folder) / str(i)


@contextmanager
def _tell_story(folder: Path, run: Run) -> Iterator[Story]:
    story = Story(folder, run)
    try:
        yield story
    finally:
        story.end()


def mask(text: str) -> str:
    """A text without what differs from run to run: times, ids, hashes, and the order in which nodes are done."""
    result: list[str] = []
    nodes: list[str] = []
    for line in _mask_headings(list(map(_mask_line, text.splitlines()))):
        # What a build says of other things, as of Spark and unit tests, is somewhere among its nodes.
        if _NODE.match(line) or line.startswith("Spark: ") or (nodes and line.startswith("Unit tests: ")):
            nodes.append(line)
            continue
        result += [*sorted(nodes), line]
        nodes = []
    return "\n".join([*result, *sorted(nodes), ""])


def _mask_line(line: str) -> str:
    masked = line
    for pattern, stand_in in _MASKS:
        masked = pattern.sub(stand_in, masked)
    # Columns of a table are as wide as what they hold.
    return line if masked == line else _GAP.sub("  ", masked)


def _mask_headings(lines: list[str]) -> list[str]:
    """The lines with the heading of each table, and what underlines it, as if all columns were narrow."""
    rules = {i for i, line in enumerate(lines) if re.fullmatch(r"-{2,}(?:  -{2,})+", line)}
    narrow = {i: re.sub("-{2,}", "--", line) if i in rules else line for i, line in enumerate(lines)}
    return [_GAP.sub("  ", narrow[i]) if {i, i + 1} & rules else line for i, line in enumerate(lines)]


def compare(written: str, now: str, name: str = "the page") -> str:
    """What a page says and what is printed now, as a diff; empty where they agree."""
    before, after = mask(written).splitlines(), mask(now).splitlines()
    return "\n".join(difflib.unified_diff(before, after, name, "printed now", lineterm=""))


def split_sqb(command: str) -> list[str] | None:
    """The arguments of a plain call of `sqb`; None where a shell has to read the line."""
    words = shlex.split(command, comments=True)
    return words[1:] if words[:1] == ["sqb"] and not {"|", ">", "&&", ";"} & set(words) else None


def run_in_shell(command: str, folder: Path) -> str:
    """Run a command as a user types it, with the `sqb` of this environment."""
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=_shell_environment(),
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout


def _shell_environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NO_COLOR": "1", "SQB_ENGINE": "off"}


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + _PORT_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port} after {_PORT_SECONDS} s")


def main() -> int:
    """Read the arguments, run the commands, write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="the pages; without any, all with a dialogue")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where a page differs")
    parser.add_argument("--times", action="store_true", help="write the times of today too, from a quiet machine")
    arguments = parser.parse_args()
    differences = []
    pages = [page.resolve() for page in arguments.pages] or [*PAGES, *list_guides()]
    for page, folder in _prepare_folders(pages):
        written = page.read_text(encoding="utf-8")
        now = run_page(written, folder, run_in_shell, with_times=arguments.times)
        if arguments.check:
            differences.append(compare(written, now, page.name))
        else:
            page.write_text(now, encoding="utf-8")
    print("\n".join(filter(None, differences)), end="\n" if any(differences) else "")
    return 1 if any(differences) else 0


if __name__ == "__main__":
    sys.exit(main())
