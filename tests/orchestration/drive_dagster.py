"""Runs the example's job in Dagster, and prints what became of it as JSON; run by the Python of .venv-dagster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import dagster as dg

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "orchestration" / "dagster"))
import definitions


def main(project: Path) -> None:
    print(json.dumps({spec.key.to_user_string(): describe(spec) for spec in definitions.build.specs}))
    keys = list(definitions.build.check_keys)
    records = dg.DagsterInstance.get().event_log_storage.get_latest_asset_check_execution_by_key(keys)
    print(json.dumps({f"{k.asset_key.to_user_string()}:{k.name}": describe_check(records[k]) for k in keys}))
    execute()
    (project / "broken").touch()
    with open(project / "seeds" / "people.csv", "a") as file:
        file.write("3,Mary\n")
    execute()
    (project / "broken").unlink()
    execute("greet")
    (project / "models" / "wrong.sql").write_text("SELECT (1")
    execute()


def describe(spec: dg.AssetSpec) -> dict[str, Any]:
    """What Dagster shows of an asset that was never materialised."""
    return {
        "deps": sorted(d.asset_key.to_user_string() for d in spec.deps),
        "kinds": sorted(spec.kinds),
        "owners": list(spec.owners),
        "group": spec.group_name,
        "tags": sorted(tag for tag in spec.tags if not tag.startswith("dagster/")),
        "relation": spec.metadata.get("dagster/relation_identifier"),
    }


def describe_check(record: Any) -> dict[str, Any]:
    """What the last run of a check came to."""
    evaluation = record.event.dagster_event.event_specific_data
    return {
        "passed": evaluation.passed,
        "severity": evaluation.severity.value,
        "metadata": {name: value.value for name, value in evaluation.metadata.items()},
    }


def execute(*keys: str) -> None:
    """One run of the job, of some assets or of all."""
    chosen = [dg.AssetKey(key.split("/")) for key in keys] or None
    job = definitions.defs.resolve_job_def("sqb_build")
    done = job.execute_in_process(raise_on_error=False, asset_selection=chosen)
    made = {
        e.asset_key.to_user_string(): {name: value.value for name, value in e.materialization.metadata.items()}
        for e in done.get_asset_materialization_events()
        if e.asset_key is not None
    }
    failures = [e.step_failure_data.user_failure_data for e in done.all_events if e.is_step_failure]
    messages = [
        {"message": f.description, "errors": str(f.metadata["errors"].value)} for f in failures if f is not None
    ]
    print(json.dumps({"ok": done.success, "made": made, "failures": messages}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
