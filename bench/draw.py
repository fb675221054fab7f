"""Draws what is read to judge the code: `bench/draw.py sentences|functions SEED [COUNT]`.

For each sentence of docs/*.md one guesses the module from the tree of src/sqb before looking; each function is
read alone.
"""

import ast
import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def read_sentences() -> list[str]:
    """The sentences of the paragraphs and lists of docs/*.md, without code blocks, tables and headings."""
    sentences = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for paragraph in re.split(r"\n\s*\n|^[-*] |^\d+\. ", text, flags=re.MULTILINE):
            if paragraph.lstrip().startswith(("|", "#", "<")):
                continue
            words = " ".join(paragraph.split())
            for sentence in re.split(r"(?<=[.!?]) (?=[A-Z`*])", words):
                if len(sentence.split()) >= 6 and sentence.endswith("."):
                    sentences.append(f"{page.name}: {sentence}")
    return sentences


def read_functions() -> list[str]:
    """Every function of src/sqb as path:line name, those of fewer than four lines left out."""
    functions = []
    for path in sorted((ROOT / "src/sqb").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 3:
                functions.append(f"{path.relative_to(ROOT)}:{node.lineno}-{node.end_lineno} {node.name}")
    return functions


def main() -> None:
    """Prints COUNT of them, the same for the same SEED and state of the repository."""
    what, seed, *count = sys.argv[1:]
    candidates = read_sentences() if what == "sentences" else read_functions()
    for line in random.Random(int(seed)).sample(candidates, int(count[0]) if count else 10):
        print(line)


if __name__ == "__main__":
    main()
