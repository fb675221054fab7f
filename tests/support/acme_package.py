"""A package of macros, audits and functions, as an author would publish it: installed into a folder on `sys.path`."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest

FILES = {
    "acme_checks/__init__.py": "",
    "acme_checks/money.py": (
        'CURRENCY = "EUR"\n\n\ndef round_to(column, digits):\n    return f"round({column}, {digits})"\n'
    ),
    "acme_checks/macros/__init__.py": "",
    "acme_checks/macros/amounts.py": (
        "from acme_checks.money import round_to\n\n\n"
        'def cents(column):\n    """A column in cents."""\n    return round_to(column, 2)\n'
    ),
    "acme_checks/audits/no_future_dates.sql": (
        "-- @description: dates are not in the future\nSELECT * FROM @@this WHERE @@column > current_date()\n"
    ),
    "acme_checks/functions/net.sql": "CREATE FUNCTION net(x DOUBLE) RETURNS DOUBLE RETURN x / 1.19\n",
    "acme_checks/functions/words.py": (
        "from acme_checks.money import CURRENCY\n\n\n"
        'def with_currency(text: str) -> str:\n    return f"{text} {CURRENCY}"\n'
    ),
}


def install_package(monkeypatch: pytest.MonkeyPatch, site: Path, version: str = "1.2.0") -> Path:
    """Install the package as pip does, in the place of another version; returns its folder."""
    for old in site.glob("acme_checks-*.dist-info"):
        shutil.rmtree(old)
    info = f"acme_checks-{version}.dist-info"
    record = "".join(f"{name},,\n" for name in (*FILES, f"{info}/METADATA", f"{info}/RECORD"))
    about = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: acme-checks\nVersion: {version}\n",
        f"{info}/RECORD": record,
        f"{info}/top_level.txt": "acme_checks\n",
    }
    for name, text in {**FILES, **about}.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    return site / "acme_checks"
