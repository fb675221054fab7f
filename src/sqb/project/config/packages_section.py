"""`[packages]`: the Python packages whose macros, audits and functions a project uses."""

from __future__ import annotations

import re

from sqb.errors.project import BadValue
from sqb.project.config.located import Section
from sqb.project.packages.requirement import find_requirement_problem
from sqb.project.values import PackageSetting

_IMPORT_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def read_packages(top: Section) -> tuple[PackageSetting, ...]:
    """The section `[packages]`: import names, each with the versions that it may have."""
    section = top.read_table("packages", "[packages]")
    packages = []
    for name, entry in section.entries.items():
        if not _IMPORT_NAME.fullmatch(name):
            message = f'"{name}" is not the import name of a package'
            top.errors.add(
                BadValue(message, at=entry.key_at, hint="write what Python code imports, such as acme_checks")
            )
            continue
        text = section.read_text(name)
        if text is None:
            continue
        if (problem := find_requirement_problem(text)) is not None:
            message = f"`{name}` must be a version requirement, not {problem}"
            top.errors.add(BadValue(message, at=entry.at, hint='such as ">=1.2,<2", or "*" for any'))
            continue
        packages.append(PackageSetting(name, text, entry.key_at))
    return tuple(packages)
