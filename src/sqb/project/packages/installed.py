"""Where the packages of a project are installed, and which of their files are macros, audits and functions.

A package is found without being imported. Its files are named by absolute paths, so that they are read as those of the
project are, and errors and editors lead to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from sqb.errors.base import Errors
from sqb.errors.project import BadPackage
from sqb.light_dataclass import dataclass
from sqb.project.files import find_package_folder
from sqb.project.packages.requirement import is_met
from sqb.project.values import PackageSetting

_FOLDERS = {"macros": (".py",), "audits": (".sql",), "functions": (".sql", ".py")}


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """A package that is there: its folder, and its version where its distribution has one."""

    name: str
    folder: Path
    version: str = ""
    # The file that another version of the distribution would not have.
    metadata: Path | None = None

    def list_files(self, *folders: str) -> list[Path]:
        """The files in these folders, by default in all that count."""
        return [
            path
            for folder in folders or _FOLDERS
            for path in sorted((self.folder / folder).glob("*"))
            if path.suffix in _FOLDERS[folder] and path.name != "__init__.py" and path.is_file()
        ]


def find_packages(settings: Iterable[PackageSetting], errors: Errors) -> tuple[InstalledPackage, ...]:
    """The packages that a project names; what is missing, or has another version, is reported."""
    packages = []
    for setting in settings:
        try:
            packages.append(_find_package(setting))
        except BadPackage as error:
            errors.add(error)
    return tuple(packages)


def _find_package(setting: PackageSetting) -> InstalledPackage:
    name, at = setting.name, setting.at
    folder = find_package_folder(name)
    if folder is None:
        hint = "install it into the Python environment of sqb, or remove the line"
        raise BadPackage(f'the package "{name}" is not installed', at=at, hint=hint)
    distribution = _find_distribution(name)
    version = distribution.version if distribution is not None else ""
    if setting.requirement.strip() != "*":
        if not version:
            hint = 'write "*" to take it as it is'
            raise BadPackage(
                f'the package "{name}" has no version, and {setting.requirement} is asked for', at=at, hint=hint
            )
        if not is_met(setting.requirement, version):
            assert distribution is not None
            hint = f"pip install '{distribution.name}{setting.requirement}'"
            message = f'the package "{name}" is installed as {version}, and {setting.requirement} is asked for'
            raise BadPackage(message, at=at, hint=hint)
    package = InstalledPackage(name, Path(folder), version, _find_metadata(distribution))
    if not package.list_files():
        hint = "a package has them in its folders macros/, audits/ and functions/"
        raise BadPackage(f'the package "{name}" has no macros, audits or functions', at=at, hint=hint)
    return package


def _find_distribution(name: str) -> metadata.Distribution | None:
    names = metadata.packages_distributions().get(name.partition(".")[0], ())
    try:
        return metadata.distribution(names[0]) if names else None
    except metadata.PackageNotFoundError:
        return None


def _find_metadata(distribution: metadata.Distribution | None) -> Path | None:
    files = distribution.files if distribution is not None else None
    file = next((file for file in files or () if file.name == "METADATA"), None)
    return Path(str(file.locate())) if file is not None else None


def list_watched(packages: Iterable[InstalledPackage]) -> Iterator[Path]:
    """What changes when a package does: its Python and SQL files, its folders, and its metadata."""
    for package in packages:
        yield package.folder
        yield from (package.folder / folder for folder in _FOLDERS)
        yield from (p for p in sorted(package.folder.rglob("*")) if p.suffix in (".py", ".sql") and p.is_file())
        if package.metadata is not None:
            yield package.metadata
