"""The names of the dbt project that `__dbt_ref` may use, as the last command that asked dbt has left them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from sqb.cache import codec
from sqb.cache.files import read_lines
from sqb.light_dataclass import dataclass
from sqb.names import Relation

# The summary's lines: what it was made from, these names, and the project.
NAMES_LINE = 1


@dataclass(frozen=True, slots=True)
class DbtName:
    """A model, seed or snapshot of the dbt project; one that is ephemeral has no relation."""

    unique_id: str
    name: str
    package: str
    relation: Relation | None
    path: str = ""
    # Of a model with versions: the one that its name means.
    is_latest: bool = True


@dataclass(frozen=True, slots=True)
class DbtNames:
    """Everything in the dbt project that could be read."""

    entries: tuple[DbtName, ...] = ()
    by_name: Mapping[str, tuple[DbtName, ...]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        by_name: dict[str, tuple[DbtName, ...]] = {}
        for entry in self.entries:
            # Versions have names of their own: `model.v2`.
            exact = entry.unique_id.split(".", 2)[2]
            names = {exact, f"{entry.package}.{exact}"}
            names |= {entry.name, f"{entry.package}.{entry.name}"} if entry.is_latest else set()
            for name in sorted(names):
                by_name[name.lower()] = (*by_name.get(name.lower(), ()), entry)
        object.__setattr__(self, "by_name", by_name)

    def find(self, name: str) -> tuple[DbtName, ...]:
        """What a name may mean: `model`, or `package.model`."""
        return self.by_name.get(name.lower(), ())

    @property
    def names(self) -> Iterable[str]:
        return sorted({entry.name for entry in self.entries})


def get_summary_file(root: Path) -> Path:
    """Where the summary of the dbt project is kept."""
    return root / ".sqb" / "cache" / "dbt.json"


def read_names(root: Path) -> DbtNames | None:
    """The names that are known; None when dbt has not been asked yet."""
    text = read_names_text(root)
    try:
        return codec.decode(DbtNames, text) if text else None
    except codec.Undecodable:
        return None


def read_names_text(root: Path) -> str:
    """The names as they are kept, to tell whether they are those of before; "" for none."""
    lines = read_lines(get_summary_file(root), None)
    return lines[NAMES_LINE] if lines and len(lines) > NAMES_LINE else ""
