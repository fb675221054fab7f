"""Settings of an object store that speaks S3, in the words of Iceberg's Java client and of pyiceberg at once.

People write the settings once; where the two clients call something differently, each gets its own word.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_REGIONS = ("s3.region", "client.region")
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
# Stores of one's own ignore the region, but every client wants one.
_ANY_REGION = "us-east-1"
# In seconds, and asked three times: a store that does not answer is one that is out of reach.
_PATIENCE = {"s3.connect-timeout": "5", "s3.request-timeout": "8"}


def s3_options(options: Mapping[str, str]) -> dict[str, str]:
    """The settings with everything that either client needs and that follows from what is said."""
    found = {**_PATIENCE, **options}
    region = next((found[key] for key in _REGIONS if found.get(key)), None)
    region = region or next((os.environ[name] for name in _REGION_VARIABLES if os.environ.get(name)), None)
    own_store = "s3.endpoint" in found
    if region is None and own_store:
        region = _ANY_REGION
    if region is not None:
        found = {**dict.fromkeys(_REGIONS, region), **found}
    if own_store:
        found.setdefault("s3.path-style-access", "true")
    if "s3.path-style-access" in found and "s3.force-virtual-addressing" not in found:
        found["s3.force-virtual-addressing"] = "false" if found["s3.path-style-access"].lower() == "true" else "true"
    return found
