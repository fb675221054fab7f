"""The commit of the project's repository, read without git."""

from __future__ import annotations

from pathlib import Path


def git_commit(root: Path) -> str:
    """The commit that the project's folder is at, read without git; "" when it is not in a repository."""
    for folder in (root, *root.parents):
        head = folder / ".git" / "HEAD"
        try:
            text = head.read_text().strip()
        except OSError:
            continue
        if not text.startswith("ref: "):
            return text
        try:
            return (folder / ".git" / text.removeprefix("ref: ")).read_text().strip()
        except OSError:
            return ""
    return ""
