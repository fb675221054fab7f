"""A project in Airflow: a task for every node, which builds that node where something has changed.

Tasks call the command, so that sqb and Airflow need not share a Python environment where the tasks run.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sqb
from sqb.integrations.project_nodes import list_nodes, open_project

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError as error:
    raise ImportError(
        "sqb.integrations.airflow needs Airflow 3: pip install 'apache-airflow>=3.1' apache-airflow-providers-standard"
    ) from error


def sqb_tasks(
    project: str | Path | sqb.Project,
    *,
    target: str | None = None,
    select: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    virtual_env: str | None = None,
    command: Sequence[str] = (),
    options: Sequence[str] = (),
    **operator: Any,
) -> dict[str, Any]:
    """A task for each node of a project, by the node's name, each after the tasks of what it reads.

    To be called where Airflow knows which DAG tasks belong to. `command` is the sqb to call, by default the one that is
    installed beside Airflow, else that of the path; `options` are further options of `sqb build`, `operator` those of
    the BashOperator.
    """
    opened = open_project(project, target)
    nodes = list_nodes(opened, select, exclude)
    call = [*(command or _find_command()), "build"]
    where = ["--project-dir", str(opened.root), "--target", opened.target]
    where += ["--virtual-env", virtual_env] if virtual_env is not None else []
    tasks = {
        node.name: BashOperator(
            task_id=task_id(node.name),
            bash_command=shlex.join([*call, "--select", node.name, *where, *options]),
            doc_md=node.description or None,
            # What Airflow itself has in its environment holds for the command too.
            **{"append_env": True, **({"owner": node.owner} if node.owner else {}), **operator},
        )
        for node in nodes
    }
    for node in nodes:
        for upstream in node.upstream:
            if upstream in tasks:
                tasks[upstream].set_downstream(tasks[node.name])
    return tasks


def _find_command() -> list[str]:
    beside = Path(sys.executable).with_name("sqb")
    return [str(beside) if beside.exists() else "sqb"]


def task_id(name: str) -> str:
    """The task of a node: its name, with `_` for what Airflow's names cannot have."""
    return re.sub(r"[^\w.-]", "_", name)
