"""What must not leave the machine: local paths and the values of secrets are taken out of all texts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqb.project.config.secrets import find_address_secrets, is_secret_name, list_known, list_secret_values
from sqb.workspace import Workspace

# A secret of fewer characters is a word that texts have anyway.
_LEAST_LENGTH = 6
_HIDDEN = "***"


def build_scrubber(workspace: Workspace) -> Scrubber:
    """What takes the project's folder, the home folder and all secrets out of texts."""
    root = workspace.root
    paths = {str(root): ".", str(root.resolve()): ".", str(Path.home()): "~"}
    connection = workspace.connection
    secrets = [*list_known(), *connection.spark.list_secrets(), *list_catalog_secrets(workspace)]
    secrets += [value for name, value in os.environ.items() if is_secret_name(name)]
    return Scrubber(paths, secrets)


def list_catalog_secrets(workspace: Workspace) -> Iterable[str]:
    """The secrets of the catalog and of the database of environments."""
    catalog = workspace.connection.catalog
    addresses = (catalog.uri, workspace.virtual.state or "")
    return (*list_secret_values(catalog.options), *(s for a in addresses for s in find_address_secrets(a)))


class Scrubber:
    """Replaces paths by short words and secrets by stars, in every text of a document."""

    def __init__(self, paths: Mapping[str, str], secrets: Iterable[str] = ()) -> None:
        words = {path: word for path, word in paths.items() if len(path) > 1}
        words |= {secret: _HIDDEN for secret in secrets if len(secret) >= _LEAST_LENGTH}
        # As they stand in JSON. Longer ones first: the home folder may be the beginning of the project's.
        self._words = {json.dumps(text, ensure_ascii=False)[1:-1]: word for text, word in words.items()}
        longest_first = sorted(self._words, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def clean(self, value: Any) -> Any:
        """A JSON value without them, keys of mappings included."""
        # One pass over one text is many times faster than a walk through all values.
        text = json.dumps(value, ensure_ascii=False, default=str)
        return json.loads(self._pattern.sub(lambda match: self._words[match[0]], text))
