"""Makes .venv-airflow, in which the example of docs/orchestration.md runs; does nothing when it is there already.

It is what `pip install sqb-spark apache-airflow` gives.
"""

from __future__ import annotations

from own_env import ROOT, make_env_beside, run

if __name__ == "__main__":
    run(lambda: make_env_beside(ROOT / ".venv-airflow", "Airflow", "requirements-airflow.lock"), "Airflow")
