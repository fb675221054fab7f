"""`[dbt]`: where the dbt project is, and how dbt is called."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from sqb.errors.dbt import BoundedReplay, NotADbtProject
from sqb.errors.project import MissingKey
from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.config.located import Section

DBT_KEYS = ("project_dir", "profiles_dir", "target_path", "replay_on_change", "command", "share_spark")
REPLAYS = ("forward_only", "full")


@dataclass(frozen=True, slots=True)
class DbtSettings:
    """The settings of a dbt project; paths are relative to the sqb project."""

    project_dir: str
    # Where profiles.yml is; dbt looks for it itself where nothing is set and the dbt project has none.
    profiles_dir: str | None = None
    target_path: str = ".sqb/dbt/target"
    replay_on_change: str = "forward_only"
    command: tuple[str, ...] = ("dbt",)
    # Whether dbt works on the Spark of sqb's builds where that is a server.
    share_spark: bool = False
    # Where `project_dir` is written.
    at: At = field(default=At(""), compare=False)

    def find_project_folder(self, root: Path) -> Path:
        """The folder of the dbt project; raises when there is none."""
        folder = (root / Path(self.project_dir).expanduser()).resolve()
        if not folder.is_dir():
            raise NotADbtProject(f"there is no folder {self.project_dir}", at=self.at)
        if not (folder / "dbt_project.yml").is_file():
            raise NotADbtProject(f"{self.project_dir} has no dbt_project.yml", at=self.at)
        return folder

    def find_profiles_folder(self, root: Path) -> Path | None:
        """The folder of profiles.yml; None where dbt is left to look for it."""
        if self.profiles_dir is not None:
            return (root / Path(self.profiles_dir).expanduser()).resolve()
        folder = (root / Path(self.project_dir).expanduser()).resolve()
        return folder if (folder / "profiles.yml").is_file() else None

    def get_target_folder(self, root: Path) -> Path:
        """Where dbt is told to put what it makes."""
        return (root / Path(self.target_path).expanduser()).resolve()


def read_dbt(top: Section) -> DbtSettings | None:
    """The section `[dbt]`; None where the project has none, or one that cannot be used."""
    if "dbt" not in top.entries:
        return None
    section = top.read_table("dbt", "[dbt]")
    section.refuse_unknown(DBT_KEYS)
    project_dir = _read_path(section, "project_dir")
    if "project_dir" not in section.entries:
        message = "[dbt] has no `project_dir`"
        hint = 'add a line such as project_dir = "../dbt_project"'
        section.errors.add(MissingKey(message, at=top.entries["dbt"].key_at, hint=hint))
    profiles_dir = _read_path(section, "profiles_dir")
    target_path = _read_path(section, "target_path")
    replay = _read_replay(section)
    command = _read_command(section)
    share_spark = section.read_flag("share_spark")
    if project_dir is None:
        return None
    default = DbtSettings(project_dir)
    return DbtSettings(
        project_dir,
        profiles_dir,
        target_path or default.target_path,
        replay or default.replay_on_change,
        command or default.command,
        share_spark or False,
        section.entries["project_dir"].at,
    )


def _read_path(section: Section, key: str) -> str | None:
    path = section.read_text(key)
    if path is not None and not path.strip():
        section.report(key, "a folder")
        return None
    return path


def _read_replay(section: Section) -> str | None:
    entry = section.entries.get("replay_on_change")
    if entry is not None and isinstance(entry.value, str) and entry.value.startswith("bounded"):
        message = f"`replay_on_change` of dbt cannot be {entry.value}"
        hint = "write forward_only, or full: dbt has no windows"
        section.errors.add(BoundedReplay(message, at=entry.at, hint=hint))
        return None
    return section.read_choice("replay_on_change", REPLAYS)


def _read_command(section: Section) -> tuple[str, ...] | None:
    entry = section.entries.get("command")
    if entry is None:
        return None
    words: Sequence[object] = ()
    if isinstance(entry.value, str):
        try:
            words = shlex.split(entry.value)
        except ValueError:
            words = ()
    elif isinstance(entry.value, list):
        words = [item.value for item in entry.value]
    texts = tuple(w for w in words if isinstance(w, str) and w)
    if not texts or len(texts) != len(words):
        section.report("command", "a command", 'such as "dbt", "../dbt-env/bin/dbt" or ["uv", "run", "dbt"]')
        return None
    return texts
