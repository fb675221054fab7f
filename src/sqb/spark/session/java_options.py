"""The options of Java: its compiler and collector, and the user's own. Does not load Spark.

Compiling well takes longer than the work of a small build: of Java's two compilers the quick one is enough for it. Who
starts a Spark that stays, or that has much to do, wants both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# For a Java that runs for a moment.
LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

Compiler = Literal["quick", "full"]

# Up to about so many rows are read before compiling well has paid off: an estimate, see bench/RESULTS.md.
SMALL_ROWS = 2_000_000
# Batches care for throughput, not for pauses.
_COLLECTORS: dict[Compiler, str] = {"quick": "-XX:+UseSerialGC", "full": "-XX:+UseParallelGC"}
_COMPILERS: dict[Compiler, tuple[str, ...]] = {
    # With the quick compiler alone Java has little room for code, and stops compiling when that is full.
    "quick": ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"),
    # Later C2 compiles leave the cores to the work while a build starts; loops and whatever runs per row are still
    # compiled at once.
    "full": (
        "-XX:Tier4InvocationThreshold=30000",
        "-XX:Tier4MinInvocationThreshold=5000",
        "-XX:Tier4CompileThreshold=60000",
    ),
}
# Iceberg lets other threads read manifests, and looks every 10 ms whether they are done: for each scan, and longer than
# reading them from a disk takes.
_PLANS_ALONE = "-Diceberg.scan.plan-in-worker-pool=false"
_COMPILER_OPTIONS = ("-XX:Tier", "-XX:+Tier", "-XX:-Tier", "-Xint", "-Xcomp", "-XX:ReservedCodeCacheSize")
_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_ARCHIVE_OPTIONS = ("-Xshare", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-XX:SharedClassListFile")


def choose_compiler(rows: int | None) -> Compiler:
    """The compiler for work that reads so many rows; None when that is not known."""
    return "quick" if rows is not None and rows <= SMALL_ROWS else "full"


def build_java_options(compiler: Compiler, user_options: str, plans_alone: bool = False) -> str:
    """Our options and then the user's: Java obeys the last of two, and refuses two collectors.

    With `plans_alone` the thread that plans a scan reads its manifests itself.
    """
    options = [] if _chooses_collector(user_options) else [_COLLECTORS[compiler]]
    options += [_PLANS_ALONE] if plans_alone else []
    if not _has_option(user_options, _COMPILER_OPTIONS):
        options += _COMPILERS[compiler]
    return " ".join([*options, *([user_options] if user_options else [])])


def chooses_archive(user_options: str) -> bool:
    """Whether the user's options say which class archive Java uses or makes."""
    return _has_option(user_options, _ARCHIVE_OPTIONS)


def is_plain_java(user_conf: Mapping[str, str]) -> bool:
    """Whether no option is the user's that could keep Java from using an archive: another collector, a larger heap."""
    own = (JAVA_OPTIONS, "spark.driver.memory", "spark.driver.defaultJavaOptions")
    return not any(key in user_conf for key in own) and not any(os.environ.get(name) for name in _JAVA_VARIABLES)


def _chooses_collector(options: str) -> bool:
    return any(option.startswith("-XX:+Use") and option.endswith("GC") for option in _list_options(options))


def _has_option(options: str, beginnings: tuple[str, ...]) -> bool:
    return any(option.startswith(beginnings) for option in _list_options(options))


def _list_options(options: str) -> Iterable[str]:
    """The single options; quotation marks are around those with spaces in them."""
    return (option.strip("\"'") for option in options.split())
