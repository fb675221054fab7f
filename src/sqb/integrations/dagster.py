"""A project in Dagster: every node is an asset, its checks are asset checks, and a run of Dagster is one build of sqb.

Dagster decides when and shows what happened; sqb decides what has to run. A node that is up to date is not
materialised: its last materialisation stays what Dagster shows.
"""

# Annotations are not texts here: Dagster reads that of `context`.
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqb
from sqb import events
from sqb.api.values import NodeCheck
from sqb.integrations.project_nodes import list_nodes, open_project

try:
    import dagster as dg
except ImportError as error:
    raise ImportError("sqb.integrations.dagster needs Dagster: pip install 'sqb-spark[dagster]'") from error

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
# What Dagster takes as the key of a tag.
_MAX_TAG = 63


def sqb_assets(
    project: str | Path | sqb.Project,
    *,
    target: str | None = None,
    name: str = "sqb_build",
    select: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    key_prefix: Sequence[str] = (),
    virtual_env: str | None = None,
) -> Any:
    """The nodes of a project as the assets of one step, which builds those that were selected as far as they changed.

    `select` and `exclude` are selectors of the nodes that become assets; `key_prefix` comes before all of their keys.
    """
    opened = open_project(project, target)
    nodes = list_nodes(opened, select, exclude)
    assets = {asset_key(node.name, key_prefix): node for node in nodes}
    checks = {key: _name_checks(node.checks) for key, node in assets.items()}

    def build(context: dg.AssetExecutionContext) -> Iterator[Any]:
        """Build the assets that were selected, as far as something has changed."""
        names = [assets[key].name for key in context.selected_asset_keys]
        everything = not (context.is_subset or select or exclude)
        try:
            result = opened.build(
                select=() if everything else names, virtual_env=virtual_env, listen=_write_log(context.log)
            )
            for node in result.nodes:
                key = asset_key(node.name, key_prefix)
                # Hooks and loaders that go along with what was selected are not assets of this run.
                if key in context.selected_asset_keys:
                    yield from _iter_results(key, node, checks[key], result.run_id)
            result.raise_for_failures()
        except sqb.errors.SqbError as error:
            text = sqb.error_text(error, opened.root)
            raise dg.Failure(error.message, metadata={"errors": dg.MetadataValue.md(f"```\n{text}\n```")}) from None

    specs = [_build_spec(key, node, key_prefix) for key, node in assets.items()]
    check_specs = [
        _build_check_spec(key, label, check) for key, named in checks.items() for label, check in named.items()
    ]
    return dg.multi_asset(name=name, specs=specs, check_specs=check_specs, can_subset=True)(build)


def asset_key(name: str, key_prefix: Sequence[str] = ()) -> dg.AssetKey:
    """The key of a node: `staging.orders` is staging/orders, with `_` for what Dagster's names cannot have."""
    return dg.AssetKey([*key_prefix, *(re.sub(r"\W", "_", part) for part in name.split("."))])


def _build_spec(key: dg.AssetKey, node: sqb.Node, key_prefix: Sequence[str]) -> dg.AssetSpec:
    """A node as an asset, with what it reads; tables that the project only reads appear as external assets."""
    relation = {"dagster/relation_identifier": node.relation} if node.relation is not None else {}
    return dg.AssetSpec(
        key,
        deps=[asset_key(upstream, key_prefix) for upstream in node.upstream],
        description=node.description or None,
        kinds={"sqb", node.kind},
        owners=[_convert_owner(node.owner)] if node.owner else None,
        tags={re.sub(r"[^\w.-]", "_", tag)[:_MAX_TAG]: "" for tag in node.tags},
        group_name=re.sub(r"\W", "_", node.name.rpartition(".")[0]) or None,
        metadata={**relation, "file": node.file},
        skippable=True,
    )


def _convert_owner(owner: str) -> str:
    """An owner as Dagster takes it: an address, or a team."""
    return owner if _EMAIL.fullmatch(owner) else "team:" + re.sub(r"\W+", "_", owner).strip("_")


# --- checks -----------------------------------------------------------------------------------------------------------


def _name_checks(checks: Iterable[NodeCheck]) -> dict[str, NodeCheck]:
    """The checks of a node by names that Dagster takes: `not_null(id)` is not_null_id."""
    named: dict[str, NodeCheck] = {}
    for check in checks:
        base = re.sub(r"\W+", "_", check.text).strip("_") or "check"
        label, number = base, 2
        while label in named:
            label, number = f"{base}_{number}", number + 1
        named[label] = check
    return named


def _build_check_spec(key: dg.AssetKey, label: str, check: NodeCheck) -> dg.AssetCheckSpec:
    # sqb itself keeps rows from being published, and models below from running.
    return dg.AssetCheckSpec(label, asset=key, description=f"{check.role}: {check.text}", blocking=False)


# --- what happened ----------------------------------------------------------------------------------------------------


def _iter_results(
    key: dg.AssetKey, node: events.NodeDone, checks: Mapping[str, NodeCheck], run_id: str
) -> Iterator[Any]:
    """What Dagster shows of a node: its materialisation where it ran well, and what its checks came to."""
    failures = {(failure["role"], failure["check"]): failure for failure in node.list_failures()}
    if node.status == "ok":
        yield dg.MaterializeResult(asset_key=key, metadata=_build_metadata(node, run_id))
    elif not failures:
        return
    for label, check in checks.items():
        failure = failures.get((check.role, check.text))
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=label,
            passed=failure is None,
            severity=dg.AssetCheckSeverity.ERROR if check.is_blocking else dg.AssetCheckSeverity.WARN,
            metadata={
                name: failure[name] for name in ("message", "violations") if failure and failure.get(name) is not None
            },
        )


def _build_metadata(node: events.NodeDone, run_id: str) -> dict[str, Any]:
    """What Dagster shows of a node that ran."""
    metadata: dict[str, Any] = {
        "dagster/row_count": node.rows,
        "seconds": round(node.seconds, 3),
        "reason": str(node.reason),
        "run_type": node.run_type,
        "identical": node.identical,
        "sqb_run": run_id,
    }
    # As text: the browser would round the number.
    return metadata | ({"snapshot_id": str(node.snapshot_id)} if node.snapshot_id is not None else {})


def _write_log(log: Any) -> Callable[[events.Event], None]:
    """What a build reports, in the log of Dagster's run."""

    def write(event: events.Event) -> None:
        match event:
            case events.NodeStarted(name=name):
                log.info("%s runs", name)
            case events.NodeDone(name=name, status="failed", error=error):
                log.error("%s failed: %s", name, error)
            case events.NodeDone(name=name, status="blocked", detail=detail):
                log.warning("%s is blocked: %s", name, detail)
            case events.Notice(text=text) | events.NodeSaid(text=text) | events.Progress(text=text):
                log.info("%s", text)

    return write
