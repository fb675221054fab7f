"""A sqb project in Dagster, with one job and one schedule for all of it.

SQB_PROJECT=/srv/shop SQB_TARGET=prod dagster dev -f definitions.py
"""

import os

import dagster as dg

from sqb.integrations.dagster import sqb_assets

build = sqb_assets(os.environ.get("SQB_PROJECT", "."), target=os.environ.get("SQB_TARGET"))
everything = dg.define_asset_job("sqb_build", selection=dg.AssetSelection.assets(build))
hourly = dg.ScheduleDefinition(job=everything, cron_schedule="15 * * * *")
defs = dg.Definitions(assets=[build], jobs=[everything], schedules=[hourly])
