"""What tests need of the machine: where it is missing they are skipped and say so, or fail where all is required."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(why: str) -> NoReturn:
    """Skip the test, or fail it under SQB_ALL_REQUIRED: there, whatever can be installed has to be."""
    if os.environ.get("SQB_ALL_REQUIRED"):
        pytest.fail(why)
    pytest.skip(why)
