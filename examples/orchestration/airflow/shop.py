"""A sqb project in Airflow: a task for every model, seed and task of the project, hourly.

SQB_PROJECT and SQB_TARGET name the project's folder and its target; the file goes to Airflow's folder of DAGs.
"""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG

from sqb.integrations.airflow import sqb_tasks

with DAG(
    "shop",
    schedule="15 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Two builds at once are safe, and a waste.
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
) as dag:
    sqb_tasks(os.environ.get("SQB_PROJECT", "/srv/shop"), target=os.environ.get("SQB_TARGET"))
