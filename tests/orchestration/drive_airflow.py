"""Runs the example in Airflow, and writes what became of it as JSON; run by the Python of .venv-airflow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow.utils.db import initdb

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "orchestration" / "airflow"))


def main(output: Path) -> None:
    # Airflow's own database, which a run of a DAG needs.
    initdb()
    import shop

    graph = {
        task.task_id: {
            "upstream": sorted(task.upstream_task_ids),
            "command": task.bash_command,
            "owner": task.owner,
            "doc": task.doc_md,
            "retries": task.retries,
        }
        for task in shop.dag.tasks
    }
    run = shop.dag.test()
    states = {instance.task_id: str(instance.state) for instance in run.get_task_instances()}
    output.write_text(json.dumps({"graph": graph, "state": str(run.state), "tasks": states}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
