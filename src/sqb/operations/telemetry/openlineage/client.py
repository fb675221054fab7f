"""OpenLineage's own client, set up as its variables and files say, else as the project does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml
from openlineage.client import OpenLineageClient

from sqb.operations.telemetry.watch import find_client_file
from sqb.project.config.settings import OpenLineageSettings


def open_client(settings: OpenLineageSettings, root: Path) -> OpenLineageClient:
    """A client for the place that events go to."""
    if _is_set_by_variables():
        return OpenLineageClient()
    if (file := find_client_file(root)) is not None:
        return OpenLineageClient(config=yaml.safe_load(file.read_text(encoding="utf-8")))
    transports = [*_build_http(settings), *_build_file(settings, root)]
    if not transports:
        raise ValueError("it is on, and nothing says where events go: set OPENLINEAGE_URL, or `url` in [openlineage]")
    transport = transports[0] if len(transports) == 1 else {"type": "composite", "transports": transports}
    return OpenLineageClient(config={"transport": transport})


def _is_set_by_variables() -> bool:
    names = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE", "OPENLINEAGE__TRANSPORT")
    return any(os.environ.get(name) for name in names)


def _build_http(settings: OpenLineageSettings) -> list[dict[str, Any]]:
    if not settings.url:
        return []
    key = os.environ.get("OPENLINEAGE_API_KEY")
    auth = {"auth": {"type": "api_key", "apiKey": key}} if key else {}
    return [{"type": "http", "url": settings.url, **auth}]


def _build_file(settings: OpenLineageSettings, root: Path) -> list[dict[str, Any]]:
    if not settings.file:
        return []
    path = root / Path(settings.file).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    return [{"type": "file", "log_file_path": str(path), "append": True}]
