"""What a command of `sqb dbt` was asked for: its options, checked and resolved against the settings of the project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqb.dbt.command import Dbt, DbtArguments, build_dbt
from sqb.dbt.defer import DeferOptions, resolve_folder
from sqb.dbt.model import DbtOptions
from sqb.dbt.project.selection import DbtSelection
from sqb.errors.base import Errors
from sqb.errors.call import CallError
from sqb.errors.dbt import NoDbt, NotWithDbt
from sqb.project.config.config import load_config
from sqb.project.config.dbt import DbtSettings
from sqb.project.files import find_root

# Options that sqb sets itself.
_SQB_OPTIONS = ("--project-dir", "--profiles-dir", "--target-path", "--log-path", "--write-json", "--no-write-json")
# With these, dbt makes tables that are not what their models say, and sqb would take them for current.
_PARTIAL_OPTIONS = ("--sample", "--event-time-start", "--event-time-end")
_SELECTING = ("--select", "-s", "--models", "-m", "--exclude", "--selector", "--vars", "--target", "-t", "--profile")
_PARSED_OPTIONS = (*_SELECTING, "--empty", "--defer", "--favor-state", "--defer-state", "--state")


@dataclass(frozen=True, slots=True)
class DbtCommandOptions:
    """The options of a command of `sqb dbt`; most of them are dbt's, and handed on to it."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: str | None = None
    indirect_selection: str | None = None
    state: str | None = None
    resource_types: tuple[str, ...] = ()
    exclude_resource_types: tuple[str, ...] = ()
    target: str | None = None
    profile: str | None = None
    # Values of the dbt project's variables, as YAML.
    vars: str | None = None
    defer: bool = False
    favor_state: bool = False
    defer_state: str | None = None
    full_refresh: bool = False
    empty: bool = False
    threads: int | None = None
    fail_fast: bool = False
    more: tuple[str, ...] = ()
    sqb_target: str | None = None

    @property
    def selection(self) -> DbtSelection:
        """The user's selection, in dbt's words."""
        return DbtSelection(
            self.select,
            self.exclude,
            self.selector,
            self.resource_types,
            self.exclude_resource_types,
            self.indirect_selection,
            resolve_folder(self.state),
        )

    @property
    def defer_options(self) -> DeferOptions:
        """What dbt may read elsewhere."""
        return DeferOptions(self.defer, self.favor_state, resolve_folder(self.defer_state))

    @property
    def flags(self) -> tuple[str, ...]:
        """What dbt is given besides a selection."""
        return (
            *(("--threads", str(self.threads)) if self.threads else ()),
            *(("--fail-fast",) if self.fail_fast else ()),
            *(("--empty",) if self.empty else ()),
            *self.defer_options.flags,
            *self.more,
        )


@dataclass(frozen=True, slots=True)
class DbtCall:
    """A command of `sqb dbt`, ready to run."""

    dbt: Dbt
    settings: DbtSettings
    selection: DbtSelection
    verb: str
    full_refresh: bool
    empty: bool
    defer_options: DeferOptions
    flags: tuple[str, ...]
    sqb_target: str | None

    @property
    def options(self) -> DbtOptions:
        # Who types `test` wants to know what tests say now. And with --favor-state dbt reads elsewhere what it is not
        # told to run, so that nothing of what the user selected may be left out.
        everything = self.verb == "test" or self.defer_options.favor_state
        return DbtOptions(None, self.full_refresh, self.settings.replay_on_change, self.verb, everything)


def open_call(folder: Path, verb: str, options: DbtCommandOptions) -> DbtCall:
    """Resolve the options of a command against the settings of the project at or above a folder."""
    root = find_root(folder)
    errors = Errors()
    config = load_config(root, errors)
    errors.raise_any()
    if config is None or config.dbt is None:
        raise NoDbt(
            "this project has no [dbt] settings",
            hint='write [dbt] and project_dir = "../dbt_project" into sqlbuild_project.toml',
        )
    _check_options(options.more)
    # One name for both is what people mean by it.
    sqb_target = options.sqb_target or (options.target if options.target in config.targets else None)
    built_to = config.targets.get(sqb_target or config.default_target)
    catalog = config.get_connection(built_to).catalog.name if built_to is not None else ""
    arguments = DbtArguments(options.target, options.profile, options.vars)
    return DbtCall(
        dbt=build_dbt(root, config.dbt, arguments, catalog),
        settings=config.dbt,
        selection=options.selection,
        verb=verb,
        full_refresh=options.full_refresh,
        empty=options.empty,
        defer_options=options.defer_options,
        flags=options.flags,
        sqb_target=sqb_target,
    )


def _check_options(more: tuple[str, ...]) -> None:
    if more and not more[0].startswith("-"):
        raise CallError(f'"{more[0]}" is not an option', hint="--select names what to run; options of dbt go after --")
    for word in more:
        name = word.partition("=")[0]
        if name in _SQB_OPTIONS:
            raise NotWithDbt(f"{name} is set by sqb", hint="set it under [dbt] in sqlbuild_project.toml")
        if name in _PARTIAL_OPTIONS:
            raise NotWithDbt(
                f"with {name} dbt builds tables that are not what their models say, and they would pass for current",
                hint="run dbt itself for that",
            )
        if name in _PARSED_OPTIONS:
            raise NotWithDbt(f"{name} belongs before the --", hint=f"sqb dbt takes {name} itself")
