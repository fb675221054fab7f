"""The pages about errors: what each means, what it looks like and what to do. They are documentation, and packaged."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

from sqb.light_dataclass import dataclass

_CODE = re.compile(r"(?:error\[)?(?:SQB-)?([A-Z])(\d{3})\]?", re.IGNORECASE)
_ROW = re.compile(r"\| \[(SQB-\w+)\]\([^)]*\) \| (.*) \|")


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """The page of one error, in Markdown."""

    code: str
    title: str
    text: str

    def to_data(self) -> dict[str, Any]:
        """What `sqb explain --json` prints."""
        return {"code": self.code, "title": self.title, "text": self.text}


def parse_code(text: str) -> str | None:
    """The code that is meant by `SQB-R002`, `r002` or `error[SQB-R002]`; None for something else."""
    match = _CODE.fullmatch(text.strip().rstrip(":"))
    return f"SQB-{match[1].upper()}{match[2]}" if match else None


def find_page(code: str) -> Path | None:
    """Where the page of an error is on this machine; None when there is none."""
    path = resources.files("sqb.errors") / "pages" / f"{code}.md"
    return path if isinstance(path, Path) and path.is_file() else None


def read_page(code: str) -> ErrorPage | None:
    """The page of an error."""
    path = find_page(code)
    if path is None:
        return None
    text = path.read_text(encoding="utf-8")
    return ErrorPage(code, text.partition("\n")[0].partition(": ")[2], text)


def list_titles() -> dict[str, str]:
    """The titles of all errors by their codes, in the order of the index."""
    path = find_page("index")
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None else []
    return {row[1]: row[2] for line in lines if (row := _ROW.fullmatch(line))}
