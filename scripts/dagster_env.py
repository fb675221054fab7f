"""Makes .venv-dagster, in which the example of docs/orchestration.md runs; does nothing when it is there already.

It is what `pip install 'sqb-spark[dagster]'` gives.
"""

from __future__ import annotations

from own_env import ROOT, make_env_beside, run

if __name__ == "__main__":
    run(lambda: make_env_beside(ROOT / ".venv-dagster", "Dagster", "requirements-dagster.lock"), "Dagster")
