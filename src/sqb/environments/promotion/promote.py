"""Promoting one environment to another: views move, nothing is built, and no Spark is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqb.build.failpoints import Announce, ignore_step
from sqb.environments.model import Binding, Checkpoint, Environment, Ref, Status
from sqb.environments.naming import check_environment_name
from sqb.environments.promotion.errors import check_finalized, check_promotion
from sqb.environments.promotion.merge_base import (
    EnvironmentHistory,
    MergeBase,
    find_merge_base,
    find_promoted,
    find_since,
    list_past_versions,
)
from sqb.environments.promotion.three_way_merge import (
    Promotion,
    PromotionCase,
    Step,
    decide_promotion,
    find_misfits,
    get_version,
)
from sqb.environments.session import check_attached, get_baseline, get_default_environment
from sqb.environments.staleness import format_function_name
from sqb.environments.state.pairing import read_pairing
from sqb.environments.state.store import Store
from sqb.environments.validate_refs import validate_refs
from sqb.environments.views import build_checkpoint, find_misplaced_views, lock_environment, swap_views, update_bases
from sqb.errors.call import CallError
from sqb.errors.environments import NoSuchEnvironment
from sqb.lake.port import Lake
from sqb.names import suggest_nearest
from sqb.workspace import Workspace

# The names among the refs of both environments that are to be promoted; None for all.
SelectNames = Callable[[Mapping[str, Ref], Mapping[str, Ref]], frozenset[str] | None]


@dataclass(frozen=True, slots=True)
class PromotionOptions:
    """How a promotion was asked for."""

    allow_partial: bool = False
    include_stale_upstreams: bool = False
    dry_run: bool = False
    take_over: bool = False
    merged: bool = False


@dataclass(frozen=True, slots=True)
class PromotionResult:
    """A promotion that was made, or that would be."""

    source: str
    target: str
    promotion: Promotion
    # How many views are others now.
    views: int = 0
    checkpoint: Checkpoint | None = None


def promote(
    workspace: Workspace,
    store: Store,
    lake: Lake,
    source: str,
    target: str,
    select: SelectNames,
    options: PromotionOptions = PromotionOptions(),
    owner: str = "",
    announce: Announce = ignore_step,
) -> PromotionResult:
    """Make `target` show what `source` shows, as far as it is selected and fits; a dry run only decides it."""
    if source == target:
        raise CallError(f"{source} cannot be promoted to itself", hint="--from and --to name two environments")
    read_pairing(store, lake).check_match()
    _check_environments(workspace, store, source, target)
    with ExitStack() as locks:
        tokens: dict[str, str] = {}
        # Always in the same order: two promotions between the same environments never wait for each other.
        for name in sorted((source, target)) if not options.dry_run else ():
            tokens[name] = locks.enter_context(lock_environment(store, lake, name, owner, options.take_over, announce))
        with store.read_consistently():
            # Another process may have removed or detached one of them before the locks were held.
            _check_environments(workspace, store, source, target)
            pair = _EnvironmentPair(workspace, store, source, target)
            promotion = pair.decide(select, options)
        validate_refs(lake, {s.name: promotion.refs[s.name] for s in promotion.steps if s.what != "removed"})
        if options.dry_run:
            return PromotionResult(source, target, promotion)
        result = PromotionResult(source, target, promotion)
        finalized = (pair.target.environment.status, promotion.status) == (Status.ACTIVE, Status.FINALIZED)
        if promotion.steps or finalized or pair.has_misplaced_views(lake):
            result = _publish_promotion(pair, promotion, lake, tokens[target], announce)
        _update_bases(pair, promotion.refs, lake, tokens[source])
    return result


def _check_environments(workspace: Workspace, store: Store, source: str, target: str) -> None:
    """Refuse environments that are not there or detached; the main one may be made by its first promotion."""
    environments = store.read_environments()
    _check_environment(source, environments, ())
    main = (get_baseline(workspace), get_default_environment(workspace), workspace.virtual.unsuffixed)
    _check_environment(target, environments, main)


def _check_environment(name: str, environments: Mapping[str, Environment], creatable: Collection[str | None]) -> None:
    check_environment_name(name)
    if name in environments:
        check_attached(environments[name])
    elif name not in creatable:
        known = f"there are {', '.join(environments)}" if environments else "`sqb build --virtual-env NAME` makes one"
        raise NoSuchEnvironment(
            f"there is no virtual environment {name}", hint=suggest_nearest(name, environments) or known
        )


class _EnvironmentPair:
    """The two environments of a promotion, as they are while their locks are held."""

    def __init__(self, workspace: Workspace, store: Store, source: str, target: str) -> None:
        self.workspace, self.store = workspace, store
        self.baseline = get_baseline(workspace)
        environments = store.read_environments()
        self.is_new = target not in environments
        now = datetime.now(UTC)
        new = Environment(target, Status.ACTIVE, now, now)
        both = environments[source], environments.get(target, new)
        self.checkpoints = read_checkpoints(store, *(n for e in both for n in (e.name, self._get_baseline(e))))
        shown = store.read_refs(source), store.read_refs(target)
        names = {*shown[0], *shown[1]}
        self.differing = {n for n in names if get_version(shown[0], n) != get_version(shown[1], n)}
        self.bindings = self._read_bindings(self.differing)
        self.source, self.target = (self._build_history(e, refs) for e, refs in zip(both, shown, strict=True))

    def _read_bindings(self, names: Collection[str]) -> Mapping[str, Binding]:
        """Read the bindings that checkpoints have of the nodes that differ."""
        ids = {c.refs[n] for c in self.checkpoints for n in names if n in c.refs}
        return self.store.read_bindings(ids) if ids else {}

    def _build_history(self, environment: Environment, refs: Mapping[str, Ref]) -> EnvironmentHistory:
        whole = replace(environment, baseline=self._get_baseline(environment))
        return EnvironmentHistory(whole, refs, list_past_versions(whole, self.checkpoints, self.bindings))

    def _get_baseline(self, environment: Environment) -> str:
        return environment.baseline or (self.baseline if environment.name != self.baseline else "")

    def has_misplaced_views(self, lake: Lake) -> bool:
        """Whether views of the target are gone from the catalog: then they are put back."""
        unsuffixed = self.workspace.virtual.unsuffixed
        return bool(find_misplaced_views(lake, self.target.environment.name, self.target.refs, unsuffixed))

    def decide(self, select: SelectNames, options: PromotionOptions) -> Promotion:
        """What goes to the target, by a three-way merge; raises what keeps it from being promoted."""
        source, target = self.source, self.target
        selected = select(source.refs, target.refs)
        if not options.allow_partial and source.environment.status is not Status.FINALIZED:
            check_finalized(source, [m.name for m in find_misfits(source.refs)] or self._list_outdated())
        promoted = find_promoted(source, target, self.checkpoints, self.bindings)
        # A new environment has no merge base: it gets everything.
        base = find_merge_base(source, target, promoted) if not self.is_new else MergeBase({}, {})
        promotion = decide_promotion(
            PromotionCase(
                source.refs,
                target.refs,
                source.environment.status,
                target.environment.status,
                selected,
                options.allow_partial,
                options.include_stale_upstreams,
                options.merged,
                bases=base.bases,
                removed=base.removed,
                functions=self._read_functions(),
                definitions=self._read_definitions({**base.removed, **base.bases}),
            )
        )
        check_promotion(promotion, source, target, self._find_since)
        return promotion

    def _list_outdated(self) -> Sequence[str]:
        """What the project in this folder has at other versions: the best guess at what is not built."""
        from sqb.environments.versions import compute_versions  # only a refusal asks for it

        expected = compute_versions(self.workspace.project)
        return [n for n, version in expected.items() if get_version(self.source.refs, n) != version]

    def _read_functions(self) -> dict[str, dict[str, str]]:
        """The functions that the source's models have been made with; not asked where none differs."""
        refs = self.source.refs, self.target.refs
        names = {n for some in refs for n, r in some.items() if r.binding.type == "function"}
        if all(get_version(refs[0], n) == get_version(refs[1], n) for n in names):
            return {}
        keys = [(n, r.binding.version_hash) for n, r in refs[0].items() if r.binding.type == "model"]
        return {
            name: {
                format_function_name(f): version_hash
                for f, version_hash in version.functions.items()
                if not f.startswith("@")
            }
            for (name, _), version in self.store.read_versions(keys).items()
        }

    def _read_definitions(self, bases: Mapping[str, str]) -> dict[tuple[str, str], str]:
        """The definitions on which both agreed of nodes that both have changed; without them each conflicts."""
        keys = {(n, bases[n]) for n in self.differing if bases.get(n)}
        known = {(b.name, b.version_hash): b.local_hash for b in self.bindings.values()}
        return known | {key: v.local_hash for key, v in self.store.read_versions(keys - known.keys()).items()}

    def _find_since(self, name: str, version: str) -> Checkpoint | None:
        return find_since(name, version, self.target.environment.name, self.checkpoints, self.bindings)


def _publish_promotion(
    pair: _EnvironmentPair, promotion: Promotion, lake: Lake, token: str, announce: Announce
) -> PromotionResult:
    """Move the target's views to what was promoted, with a checkpoint that says where it came from."""
    store, source, target = pair.store, pair.source.environment, pair.target.environment
    is_baseline = target.name == pair.baseline
    baseline = promotion.refs if is_baseline else store.read_refs(target.baseline)
    refs = update_bases(promotion.refs, baseline)
    built = next((c for c in pair.checkpoints if c.id == source.checkpoint), None)
    checkpoint = build_checkpoint(
        target,
        refs,
        "promote",
        f"promoted from {source.name}: {format_counts(promotion.steps)}",
        source.run_id,
        built.git if built is not None else "",
        promoted_from=source.name,
    )
    after = replace(
        target,
        status=promotion.status,
        updated_at=datetime.now(UTC),
        checkpoint=checkpoint.id,
        run_id=source.run_id,
    )
    _share_observations(store, source.name, target.name)
    views = swap_views(
        store, lake, after, pair.target.refs, refs, token, pair.workspace.virtual.unsuffixed, checkpoint, announce
    )
    stored = next((c for c in store.read_checkpoints(target.name) if c.id == checkpoint.id), checkpoint)
    return PromotionResult(source.name, target.name, promotion, views, stored)


def _share_observations(store: Store, source: str, target: str) -> None:
    """Give the target what it has never seen of sources.

    What it has seen stays: the tables say themselves which versions of sources they were made from. And Python nodes
    have run in the source, not in the target.
    """
    known = {row.key for row in store.read_freshness(target)}
    missing = [row for row in store.read_freshness(source) if row.key not in known]
    if missing:
        store.add_freshness(target, missing)


def _update_bases(pair: _EnvironmentPair, shown: Mapping[str, Ref], lake: Lake, token: str) -> None:
    """Let the source start from its baseline as it is now, wherever the two agree."""
    source = pair.source
    if source.environment.baseline != pair.target.environment.name:
        return
    refs = update_bases(source.refs, shown)
    if refs != source.refs:
        swap_views(pair.store, lake, source.environment, source.refs, refs, token, pair.workspace.virtual.unsuffixed)


def read_checkpoints(store: Store, *names: str) -> list[Checkpoint]:
    """The checkpoints of some environments, newest first; those of all would be too many."""
    checkpoints = [c for name in dict.fromkeys(names) if name for c in store.read_checkpoints(name)]
    return sorted(checkpoints, key=lambda c: (c.created_at, c.number), reverse=True)


def format_counts(steps: Sequence[Step]) -> str:
    """How many nodes are added, changed and removed, in words."""
    words = {"added": "added", "changed": "changed", "removed": "removed", "data": "with other rows"}
    counts = {what: sum(s.what == what for s in steps) for what in words}
    return ", ".join(f"{count} {words[what]}" for what, count in counts.items() if count) or "nothing changed"
