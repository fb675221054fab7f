"""How a codebase reads, in figures: sizes, docstrings, names of functions, folders. `bench/house.py [PACKAGE_FOLDER…]`

Without a folder it measures sqb itself.

A function counts as named by a verb if the first word of its name is in a list of verbs or begins a predicate (is, has,
can, …); by a participle if the first word ends in -ed or is an irregular one. Properties and methods that a language
gives (`__init__`) are not counted.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from pathlib import Path

VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text().split())
IRREGULAR = {"kept", "told", "said", "found", "held", "made", "given", "taken", "shown", "known", "meant", "built"}
HEAD = ("codebase", "modules / lines", "length p90 / longest", "public docstrings", "verbs", "participles", "folder")


@dataclass
class Figures:
    """What is counted in one codebase."""

    modules: int = 0
    lines: int = 0
    lengths: list[int] = field(default_factory=list)
    public: int = 0
    documented: int = 0
    verbs: int = 0
    participles: int = 0
    largest_folder: int = 0

    def row(self, name: str) -> str:
        lengths = sorted(self.lengths)
        cells = [
            name,
            f"{self.modules} / {self.lines // 1000}k",
            f"{lengths[int(len(lengths) * 0.9)]} / {lengths[-1]}",
            f"{self.documented * 100 // max(1, self.public)} %",
            f"{self.verbs * 100 // len(lengths)} %",
            f"{self.participles * 100 // len(lengths)} %",
            str(self.largest_folder),
        ]
        return "| " + " | ".join(cells) + " |"


def measure(folder: Path) -> Figures:
    """Count everything in the Python files of a folder."""
    figures = Figures()
    files = [p for p in sorted(folder.rglob("*.py")) if not {"example", "examples", "__pycache__"} & set(p.parts)]
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        figures.modules += 1
        figures.lines += text.count("\n")
        _count_functions(ast.parse(text), figures)
    folders = {path.parent for path in files}
    figures.largest_folder = max(sum(p.parent == folder for p in files) for folder in folders)
    return figures


def _count_functions(tree: ast.Module, figures: Figures) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            figures.public += 1
            figures.documented += ast.get_docstring(node) is not None
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
            continue
        if not node.name.startswith("_"):
            figures.public += 1
            figures.documented += ast.get_docstring(node) is not None
        if any("property" in ast.unparse(d) or "setter" in ast.unparse(d) for d in node.decorator_list):
            continue
        figures.lengths.append((node.end_lineno or node.lineno) - node.lineno + 1)
        first = node.name.strip("_").partition("_")[0].lower()
        figures.verbs += first in VERBS
        figures.participles += first in IRREGULAR or (first.endswith("ed") and first not in VERBS)


def main() -> None:
    print("| " + " | ".join(HEAD) + " |")
    print("|---" * len(HEAD) + "|")
    own = Path(__file__).parents[1] / "src" / "sqb"
    for folder in map(Path, sys.argv[1:] or [str(own)]):
        print(measure(folder).row(folder.name))


if __name__ == "__main__":
    main()
