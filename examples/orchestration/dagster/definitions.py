"""A sqb project in Dagster: every node is an asset, and a run of Dagster is one build of sqb.

    SQB_PROJECT=/srv/shop SQB_TARGET=prod dagster dev -f definitions.py

Dagster decides when and shows what happened; sqb decides what has to run. A node that is up to date is not
materialised: its last materialisation stays what Dagster shows.
"""

import os
import re
from collections.abc import Iterator

import dagster as dg

import sqb
from sqb import events

PROJECT = sqb.Project(os.environ.get("SQB_PROJECT", "."), target=os.environ.get("SQB_TARGET"))
NODES = PROJECT.nodes


def key_of(name: str) -> dg.AssetKey:
    """`staging.orders` is the asset staging/orders; Dagster's names have letters, digits and underscores only."""
    return dg.AssetKey([re.sub(r"\W", "_", part) for part in name.split(".")])


def spec_of(node: sqb.Node) -> dg.AssetSpec:
    """A node as an asset, with what it reads; tables that the project only reads appear as external assets."""
    return dg.AssetSpec(
        key_of(node.name),
        deps=[key_of(name) for name in node.upstream],
        description=node.description or None,
        kinds={"sqb", node.kind},
        metadata={"relation": node.relation or "", "file": node.file},
        skippable=True,
    )


@dg.multi_asset(name="build", specs=[spec_of(node) for node in NODES], can_subset=True)
def build(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
    """Build the assets that were selected, as far as something has changed."""
    names = {key_of(node.name): node.name for node in NODES}
    select = [names[key] for key in context.selected_asset_keys] if context.is_subset else []

    def tell(event: events.Event) -> None:
        match event:
            case events.NodeStarted(name=name):
                context.log.info("%s runs", name)
            case events.NodeDone(name=name, status="failed", error=error):
                context.log.error("%s failed: %s", name, error)
            case events.NodeDone(name=name, status="blocked", detail=detail):
                context.log.warning("%s is blocked: %s", name, detail)
            case events.Notice(text=text) | events.NodeSaid(text=text) | events.Progress(text=text):
                context.log.info("%s", text)

    try:
        result = PROJECT.build(select=select, listen=tell)
        for node in result.ran:
            # Hooks and loaders that go along with what was selected are no assets of this run.
            if key_of(node.name) in context.selected_asset_keys:
                yield dg.MaterializeResult(asset_key=key_of(node.name), metadata=metadata_of(node, result))
        result.raise_for_failures()
    except sqb.errors.SqbError as error:
        text = sqb.error_text(error, PROJECT.root)
        raise dg.Failure(error.message, metadata={"errors": dg.MetadataValue.md(f"```\n{text}\n```")}) from None


def metadata_of(node: events.NodeDone, result: sqb.Result) -> dict[str, str | int | float]:
    """What Dagster shows of a node that ran."""
    return {
        "dagster/row_count": node.rows,
        "seconds": round(node.seconds, 3),
        "reason": str(node.reason),
        "run_type": node.run_type,
        "sqb_run": result.run_id,
    }


everything = dg.define_asset_job("sqb_build", selection=dg.AssetSelection.assets(build))
hourly = dg.ScheduleDefinition(job=everything, cron_schedule="15 * * * *")
defs = dg.Definitions(assets=[build], jobs=[everything], schedules=[hourly])
