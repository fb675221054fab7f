"""Promoting one environment to another: views move, nothing is built, and no Spark is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqb.build.steps import Announce, silent
from sqb.environments.common_ground import CommonGround, Known, common_ground, past_versions, promoted_from, since
from sqb.environments.entering import baseline_of, default_environment, refuse_detached
from sqb.environments.moving import checkpoint_of, locked, misplaced_views, move, with_bases
from sqb.environments.naming import refuse_bad_name
from sqb.environments.pairing import look_at_pair
from sqb.environments.port import Store
from sqb.environments.promotion import Promotion, Step, decide_promotion, misfits, version_of
from sqb.environments.promotion_refusals import refuse_promotion, refuse_unfinalized
from sqb.environments.showable import refuse_missing
from sqb.environments.stale import function_name
from sqb.environments.values import Binding, Checkpoint, Environment, Ref, Status
from sqb.errors import CallError
from sqb.errors_environments import NoSuchEnvironment
from sqb.lake.port import Lake
from sqb.names import did_you_mean
from sqb.workspace import Workspace

# The names among the refs of both environments that are to be promoted; None for all.
Select = Callable[[Mapping[str, Ref], Mapping[str, Ref]], frozenset[str] | None]


@dataclass(frozen=True, slots=True)
class PromotionOptions:
    """How a promotion was asked for."""

    allow_partial: bool = False
    include_stale_upstreams: bool = False
    dry_run: bool = False
    take_over: bool = False
    merged: bool = False


@dataclass(frozen=True, slots=True)
class Promoted:
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
    select: Select,
    options: PromotionOptions = PromotionOptions(),
    owner: str = "",
    announce: Announce = silent,
) -> Promoted:
    """Make `target` show what `source` shows, as far as it is selected and fits; or tell what that would be."""
    if source == target:
        raise CallError(f"{source} cannot be promoted to itself", hint="--from and --to name two environments")
    look_at_pair(store, lake).refuse_foreign()
    _refuse_unfit(workspace, store, source, target)
    with ExitStack() as held:
        tokens: dict[str, str] = {}
        # Always in the same order: two promotions between the same environments never wait for each other.
        for name in sorted((source, target)) if not options.dry_run else ():
            tokens[name] = held.enter_context(locked(store, lake, name, owner, options.take_over, announce))
        with store.looking():
            # Somebody may have removed or detached one of them before the locks were held.
            _refuse_unfit(workspace, store, source, target)
            pair = _Pair(workspace, store, source, target)
            promotion = pair.decide(select, options)
        refuse_missing(lake, {s.name: promotion.refs[s.name] for s in promotion.steps if s.what != "removed"})
        if options.dry_run:
            return Promoted(source, target, promotion)
        done = Promoted(source, target, promotion)
        finalized = (pair.target.environment.status, promotion.status) == (Status.ACTIVE, Status.FINALIZED)
        if promotion.steps or finalized or pair.has_misplaced_views(lake):
            done = _moved(pair, promotion, lake, tokens[target], announce)
        _agree(pair, promotion.refs, lake, tokens[source])
    return done


def _refuse_unfit(workspace: Workspace, store: Store, source: str, target: str) -> None:
    """Refuse environments that are not there or detached; the main one may be made by its first promotion."""
    there = store.environments()
    _refuse_unknown(source, there, ())
    main = (baseline_of(workspace), default_environment(workspace), workspace.virtual.unsuffixed)
    _refuse_unknown(target, there, main)


def _refuse_unknown(name: str, there: Mapping[str, Environment], may_be_new: Collection[str | None]) -> None:
    refuse_bad_name(name)
    if name in there:
        refuse_detached(there[name])
    elif name not in may_be_new:
        known = f"there are {', '.join(there)}" if there else "`sqb build --virtual-env NAME` makes one"
        raise NoSuchEnvironment(f"there is no virtual environment {name}", hint=did_you_mean(name, there) or known)


class _Pair:
    """The two environments of a promotion, as they are while their locks are held."""

    def __init__(self, workspace: Workspace, store: Store, source: str, target: str) -> None:
        self.workspace, self.store = workspace, store
        self.baseline = baseline_of(workspace)
        there = store.environments()
        self.is_new = target not in there
        now = datetime.now(UTC)
        made = Environment(target, Status.ACTIVE, now, now)
        both = there[source], there.get(target, made)
        self.checkpoints = checkpoints_of(store, *(n for e in both for n in (e.name, self._baseline_of(e))))
        shown = store.refs(source), store.refs(target)
        names = {*shown[0], *shown[1]}
        self.differing = {n for n in names if version_of(shown[0], n) != version_of(shown[1], n)}
        self.bindings = self._bindings(self.differing)
        self.source, self.target = (self._known(e, refs) for e, refs in zip(both, shown, strict=True))

    def _bindings(self, names: Collection[str]) -> Mapping[str, Binding]:
        """What checkpoints have shown of the nodes in question; of the others nobody asks."""
        ids = {c.refs[n] for c in self.checkpoints for n in names if n in c.refs}
        return self.store.bindings(ids) if ids else {}

    def _known(self, environment: Environment, refs: Mapping[str, Ref]) -> Known:
        whole = replace(environment, baseline=self._baseline_of(environment))
        return Known(whole, refs, past_versions(whole, self.checkpoints, self.bindings))

    def _baseline_of(self, environment: Environment) -> str:
        return environment.baseline or (self.baseline if environment.name != self.baseline else "")

    def has_misplaced_views(self, lake: Lake) -> bool:
        """Whether views of the target are gone from the catalog: then they are put back."""
        unsuffixed = self.workspace.virtual.unsuffixed
        return bool(misplaced_views(lake, self.target.environment.name, self.target.refs, unsuffixed))

    def decide(self, select: Select, options: PromotionOptions) -> Promotion:
        source, target = self.source, self.target
        selected = select(source.refs, target.refs)
        if not options.allow_partial and source.environment.status is not Status.FINALIZED:
            refuse_unfinalized(source, [m.name for m in misfits(source.refs)] or self._behind())
        own = promoted_from(source, target, self.checkpoints, self.bindings)
        # An environment that is not there yet has agreed with nobody: it gets everything.
        ground = common_ground(source, target, own) if not self.is_new else CommonGround({}, {})
        found = decide_promotion(
            source.refs,
            target.refs,
            source.environment.status,
            selected,
            options.allow_partial,
            options.include_stale_upstreams,
            bases=ground.bases,
            gone=ground.gone,
            functions=self._functions(),
            definitions=self._definitions({**ground.gone, **ground.bases}),
            merged=options.merged,
            target_status=target.environment.status,
        )
        refuse_promotion(found, source, target, self._since)
        return found

    def _behind(self) -> Sequence[str]:
        """What the project in this folder has at other versions: the best guess at what is not built."""
        from sqb.environments.versions import expected_versions  # only a refusal asks for it

        expected = expected_versions(self.workspace.project)
        return [n for n, version in expected.items() if version_of(self.source.refs, n) != version]

    def _functions(self) -> dict[str, dict[str, str]]:
        """The functions that the source's models have been made with; not asked where none differs."""
        refs = self.source.refs, self.target.refs
        names = {n for some in refs for n, r in some.items() if r.binding.type == "function"}
        if all(version_of(refs[0], n) == version_of(refs[1], n) for n in names):
            return {}
        keys = [(n, r.binding.version_hash) for n, r in refs[0].items() if r.binding.type == "model"]
        return {
            name: {function_name(f): own for f, own in version.functions.items() if not f.startswith("@")}
            for (name, _), version in self.store.versions(keys).items()
        }

    def _definitions(self, bases: Mapping[str, str]) -> dict[tuple[str, str], str]:
        """What nodes that both have changed said when they agreed; without it every such node is in conflict."""
        keys = {(n, bases[n]) for n in self.differing if bases.get(n)}
        known = {(b.name, b.version_hash): b.local_hash for b in self.bindings.values()}
        return known | {key: v.local_hash for key, v in self.store.versions(keys - known.keys()).items()}

    def _since(self, name: str, version: str) -> Checkpoint | None:
        return since(name, version, self.target.environment.name, self.checkpoints, self.bindings)


def _moved(pair: _Pair, promotion: Promotion, lake: Lake, token: str, announce: Announce) -> Promoted:
    store, source, target = pair.store, pair.source.environment, pair.target.environment
    is_baseline = target.name == pair.baseline
    baseline = promotion.refs if is_baseline else store.refs(target.baseline)
    refs = with_bases(promotion.refs, baseline)
    built = next((c for c in pair.checkpoints if c.id == source.checkpoint), None)
    checkpoint = checkpoint_of(
        target,
        refs,
        "promote",
        f"promoted from {source.name}: {counted(promotion.steps)}",
        source.run_id,
        built.git if built is not None else "",
    )
    after = replace(
        target,
        status=promotion.status,
        updated_at=datetime.now(UTC),
        checkpoint=checkpoint.id,
        run_id=source.run_id,
    )
    _share_observations(store, source.name, target.name)
    views = move(
        store, lake, after, pair.target.refs, refs, token, pair.workspace.virtual.unsuffixed, checkpoint, announce
    )
    made = next((c for c in store.checkpoints(target.name) if c.id == checkpoint.id), checkpoint)
    return Promoted(source.name, target.name, promotion, views, made)


def _share_observations(store: Store, source: str, target: str) -> None:
    """Give the target what it has never seen of sources.

    What it has seen stays: the tables say themselves which versions of sources they were made from. And Python nodes
    have run in the source, not in the target.
    """
    known = {row.key for row in store.freshness(target)}
    news = [row for row in store.freshness(source) if row.key not in known]
    if news:
        store.add_freshness(target, news)


def _agree(pair: _Pair, shown: Mapping[str, Ref], lake: Lake, token: str) -> None:
    """Let the source start from its baseline as it is now, wherever the two agree."""
    source = pair.source
    if source.environment.baseline != pair.target.environment.name:
        return
    refs = with_bases(source.refs, shown)
    if refs != source.refs:
        move(pair.store, lake, source.environment, source.refs, refs, token, pair.workspace.virtual.unsuffixed)


def checkpoints_of(store: Store, *names: str) -> list[Checkpoint]:
    """The checkpoints of some environments, newest first; those of all would be too many."""
    found = [c for name in dict.fromkeys(names) if name for c in store.checkpoints(name)]
    return sorted(found, key=lambda c: (c.created_at, c.number), reverse=True)


def counted(steps: Sequence[Step]) -> str:
    """How many nodes are added, changed and removed, in words."""
    words = {"added": "added", "changed": "changed", "removed": "removed", "data": "with other rows"}
    counts = {what: sum(s.what == what for s in steps) for what in words}
    return ", ".join(f"{count} {words[what]}" for what, count in counts.items() if count) or "nothing changed"
