"""What must not leave the machine: local paths and the values of secrets are taken out of all texts."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqb
from sqb.project.config.secrets import (
    find_address_secrets,
    hide_in_addresses,
    is_secret_name,
    list_known,
    list_secret_values,
)
from sqb.workspace import Workspace

# A secret of fewer characters is a word that texts have anyway.
_LEAST_LENGTH = 6
_HIDDEN = "***"
_SOFTWARE = {"JAVA_HOME": "<java>", "SPARK_HOME": "<spark>"}
# Where the shell is and was: folders, though their names are like that of a password.
_FOLDERS = frozenset({"PWD", "OLDPWD"})
# A path of one name is also a part of others: `/app` of `s3://lake/app` and of `/apple`.
_BEFORE = r"(?:(?<![\w./-])|(?<=\\[nrt])|(?<=file://))"
_AFTER = r"(?![\w-])"


def build_scrubber(workspace: Workspace) -> Scrubber:
    """What takes local folders and all secrets out of texts."""
    root = workspace.root
    paths = {tempfile.gettempdir(): "<temporary>", **_list_software(), str(Path.home()): "~"}
    paths |= {str(root): ".", str(root.resolve()): "."}
    connection = workspace.connection
    secrets = [*list_known(), *connection.spark.list_secrets(), *list_catalog_secrets(workspace)]
    secrets += list_project_secrets(workspace)
    for name, value in os.environ.items():
        if name not in _FOLDERS:
            secrets += [value] if is_secret_name(name) else find_address_secrets(value)
    # Addresses in errors have them in this form.
    return Scrubber(paths, [*secrets, *(quote(secret, safe="") for secret in secrets)])


def _list_software() -> dict[str, str]:
    """Where Python, Java and Spark are on this machine, as errors name it; a system's own folder is nothing private."""
    words = {sys.prefix: "<python>", sys.base_prefix: "<python>", str(Path(sqb.__file__).parent): "<sqb>"}
    words |= {os.environ[name]: word for name, word in _SOFTWARE.items() if os.environ.get(name)}
    return {path: word for path, word in words.items() if path.count("/") > 1}


def list_catalog_secrets(workspace: Workspace) -> Iterable[str]:
    """The secrets of the catalog and of the database of environments."""
    catalog = workspace.connection.catalog
    addresses = (catalog.uri, workspace.virtual.state or "")
    return (*list_secret_values(catalog.options), *(s for a in addresses for s in find_address_secrets(a)))


def list_project_secrets(workspace: Workspace) -> Iterator[str]:
    """What nodes and variables say under names of secrets, such as `config (api_key: '…')`."""
    settings = (value for node in workspace.project for value in node.settings.values())
    for named in (*settings, workspace.project.variables, workspace.variables):
        if isinstance(named, Mapping):
            yield from (v for name, v in named.items() if isinstance(v, str) and is_secret_name(str(name)))


class Scrubber:
    """Replaces paths by short words and secrets by stars, in every text of a document."""

    def __init__(self, paths: Mapping[str, str], secrets: Iterable[str] = ()) -> None:
        hidden = {_encode(secret): _HIDDEN for secret in secrets if len(secret) >= _LEAST_LENGTH}
        self._words = {_encode(path): word for path, word in paths.items() if len(path) > 1} | hidden
        self._patterns = {
            text: f"{_BEFORE}{re.escape(text)}{_AFTER}"
            if text not in hidden and text.count("/") == 1
            else re.escape(text)
            for text in self._words
        }

    def clean(self, value: Any) -> Any:
        """A JSON value without them, keys of mappings included."""
        # One pass over one text is many times faster than a walk through all values.
        text = json.dumps(value, ensure_ascii=False, default=str)
        text = hide_in_addresses(text)
        # Looking for one word is many times faster than for all at once. Longer ones go first: the home folder may be
        # the beginning of the project's.
        there = sorted((word for word in self._words if word in text), key=len, reverse=True)
        if there:
            pattern = re.compile("|".join(self._patterns[word] for word in there))
            text = pattern.sub(lambda match: self._words[match[0]], text)
        return json.loads(text)


def _encode(text: str) -> str:
    """A text as it stands in JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
