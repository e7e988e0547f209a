"""Who is asked, when, and what of it is news.

One round at a time looks over the cached deployments and starts what is due; a deployment is never asked twice at once. Router views are
collected between two sightings of the members and the routers: when those changed meanwhile, the views say nothing. Only a fact that
differs from the last one, its moment apart, asks for a pass: a quiet fleet judges nothing. A view that comes again after it had grown stale
is such a fact.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
import structlog

from api import keys
from api.clock import Clock, format_time, parse_time
from api.objects import Pod, condition
from api.status import decode_status
from controller import metrics
from controller.cache import Cache
from controller.kinds import CachedDeployment, KindName
from controller.observers.board import Board
from controller.observers.chain import RouterChain
from controller.observers.elastic import NotAllowedError, elastic_observation
from controller.observers.engine import cache_operations, drain_read, refused
from controller.observers.forward import REPLICA_SECONDS, forward, groups_to_ask
from controller.observers.net import Dialer, ObservationError
from controller.observers.routerviews import COLLECTION_SECONDS, router_view
from controller.settings import ObserverSettings
from controller.snapshot import CacheOperations, Drain, DrainRead, Forward, RouterView
from controller.status.eligibility import VERIFIED_VERSIONS
from controller.status.serving import FRESH
from controller.store import Key
from controller.waiting import within
from kube.client import Client

ROUND: Final = 1.0
KEPT_READS: Final = 2
# Seconds by which a clock is set, rather than kept in step, from one round to the next.
LEAP: Final = 1.0
# Permissions change rarely: a reading that is not allowed is tried again after an hour.
AFTER_REFUSAL: Final = 3600.0
TERMINAL: Final = frozenset({"Succeeded", "Failed"})

log = structlog.get_logger("controller.observers")


class ObserverService:
    """`on_news` gets the key of a deployment about which something new is known; only deployments of UIDs that we `own` are asked."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        board: Board,
        settings: ObserverSettings,
        clock: Clock,
        *,
        on_news: Callable[[Key], None],
        owns: Callable[[str], bool] = lambda _: True,
        dialer: Dialer | None = None,
    ) -> None:
        self._client = client
        self._chain = RouterChain(client)
        self._cache = cache
        self._board = board
        self._settings = settings
        self._clock = clock
        self._on_news = on_news
        self._owns = owns
        self._dialer = dialer
        self._due: dict[tuple[Key, str], float] = {}
        self._busy: set[tuple[Key, str]] = set()
        self._restarts: dict[Key, dict[str, int]] = {}  # of those that drain: by member, at the first read
        self._deployments = cache.stores[KindName.DEPLOYMENT]
        self._needs: dict[Key, tuple[str, dict[str, float]]] = {}  # of those that need something: UID, seconds by what
        self._offset: float | None = None  # of the wall clock from the steady one
        self._leapt: set[Key] = set()

    async def run(self) -> None:
        """Ask until cancelled."""
        self._due.clear()
        self._busy.clear()
        self._needs.clear()
        dialer = self._dialer or Dialer(
            self._clock, concurrency=self._settings.concurrency, allow_local=self._settings.allow_local_addresses
        )
        # Engines that nobody lets us reach take their time, a fleet of them all of it: routers and drains have turns of their own.
        lanes = defaultdict[str, Dialer](dialer.lane)
        self._deployments.follow()
        try:
            async with dialer, asyncio.TaskGroup() as group:
                while True:
                    self._notice_leaps()
                    for key, what, period in self._wanted():
                        self._start(group, lanes[what], key, what, period)
                    await self._clock.sleep(ROUND)
        finally:
            self._deployments.unfollow()

    def _notice_leaps(self) -> None:
        """Whose views a pass may have judged by another time than they were received at: the clock was set meanwhile."""
        offset = self._clock.now().timestamp() - self._clock.monotonic()
        if self._offset is not None and abs(offset - self._offset) > LEAP:
            self._leapt.update(key for key, (_, needs) in self._needs.items() if "router" in needs)
        self._offset = offset

    def _wanted(self) -> Iterable[tuple[Key, str, float]]:
        """What each deployment of ours needs to have observed. Only those that changed are thought over again."""
        for key in self._deployments.news():
            self._think_over(key)
        for key, (uid, needs) in self._needs.items():
            if self._owns(uid):
                for what, period in needs.items():
                    yield key, what, period

    def _think_over(self, key: Key) -> None:
        cached = self._cache.deployment(key)
        needs = dict(self._needed(cached)) if cached is not None else {}
        _, before = self._needs.pop(key, ("", {}))
        if cached is not None and needs:
            self._needs[key] = (cached.metadata.uid, needs)
        for what in before.keys() - needs.keys():
            self._due.pop((key, what), None)
        if "router" not in needs:
            self._leapt.discard(key)
        if "drain" not in needs:
            self._restarts.pop(key, None)

    def _needed(self, cached: CachedDeployment) -> Iterable[tuple[str, float]]:
        settings, spec = self._settings, cached.spec
        if cached.metadata.deleting:
            return
        if spec.router is not None:
            yield "router", settings.router_period
        if spec.kv_cache is not None:
            yield "cache", settings.cache_period
        if any(role.size > 1 for role in spec.roles) and spec.engine.version in VERIFIED_VERSIONS.get(spec.engine.name, ()):
            yield "forward", settings.forward_period
        if any(role.elastic_ep is not None for role in spec.roles):
            yield "elastic", settings.elastic_period
        if draining(cached):
            yield "drain", settings.drain_period

    def _start(self, group: asyncio.TaskGroup, dialer: Dialer, key: Key, what: str, period: float) -> None:
        slot = (key, what)
        now = self._clock.monotonic()
        if slot in self._busy or self._due.get(slot, now) > now:
            return
        self._due[slot] = now + period
        self._busy.add(slot)
        group.create_task(self._observe(dialer, slot), name=f"observe {what}")

    def _ask_at(self, key: Key, what: str, moment: float) -> None:
        """Change when it is due, unless nobody needs it any more: then nobody would take it off again."""
        if (key, what) in self._due:
            self._due[key, what] = moment

    async def _observe(self, dialer: Dialer, slot: tuple[Key, str]) -> None:
        key, what = slot
        try:
            cached = self._cache.deployment(key)
            if cached is not None:
                collect = {
                    "router": self._routers,
                    "cache": self._operations,
                    "forward": self._forward,
                    "drain": self._drain,
                    "elastic": self._elastic,
                }[what]
                if await collect(dialer, key, cached):
                    self._on_news(key)
        except Exception:  # what engines and routers answer is theirs to choose: a defect in reading it concerns one deployment
            metrics.OBSERVATIONS.labels(what, "defect").inc()
            log.exception("an observation ended in a defect", observer=what, namespace=key.namespace, name=key.name)
        finally:
            self._busy.discard(slot)

    def _keep(self, key: Key, uid: str, **parts: object) -> None:
        """Put facts on the board, unless their deployment went while they were collected: nobody would take them off again."""
        cached = self._cache.deployment(key)
        if cached is not None and cached.metadata.uid == uid:
            self._board.amend(key, uid, **parts)

    # --------------------------------------------------------------------------------------------------------- observers

    async def _routers(self, dialer: Dialer, key: Key, cached: CachedDeployment) -> bool:
        spec = cached.spec.router
        if spec is None:
            return False
        uid = cached.metadata.uid
        before = self._scene(key, cached)
        routers = [pod for pod in before if _is_router(pod) and not _ended(pod)]
        members = by_address(pod for pod in before if not _is_router(pod) and _running(pod))
        try:
            views = await within(
                self._clock,
                COLLECTION_SECONDS,
                _all(self._router(dialer, key, spec.name, pod, members) for pod in routers),
            )
        except TimeoutError:
            views = [RouterView(router_pod_uid=pod.metadata.uid, error="the collection took too long") for pod in routers]
        if sameness(before) != sameness(self._scene(key, cached)):
            error = "members or routers changed during the collection"
            views = [msgspec.structs.replace(view, error=error, workers=()) for view in views]
            self._ask_at(key, "router", self._clock.monotonic())
        for view in views:
            metrics.OBSERVATIONS.labels("router", "error" if view.error else "answer").inc()
        facts = self._board.read(key, uid)
        fresh = tuple(sorted(views, key=lambda view: view.router_pod_uid))
        known = facts.router_views if facts else ()
        # A pass may have found the last views stale; that they are fresh again is news though they say the same.
        aged = key in self._leapt or any(self._grew_stale(view) for view in known)
        self._leapt.discard(key)
        news = aged or [_timeless(view) for view in fresh] != [_timeless(view) for view in known]
        self._keep(key, uid, router_views=fresh)
        return news

    def _grew_stale(self, view: RouterView) -> bool:
        return view.received_at is not None and self._clock.now() - parse_time(view.received_at) > FRESH

    async def _router(self, dialer: Dialer, key: Key, name: str, pod: Pod, members: dict[str, Pod]) -> RouterView:
        """One router Pod's view; a Pod that is not proved to be the router's is not asked, and its view is an error."""
        own = next((router for router in self._cache.routers(key) if router.metadata.name == f"{key.name}-router"), None)
        try:
            await self._chain.verify(key, pod, own)
        except ObservationError as error:
            return RouterView(router_pod_uid=pod.metadata.uid, received_at=format_time(self._clock.now()), error=str(error))
        return await router_view(dialer, name, pod, members, self._clock)

    async def _operations(self, dialer: Dialer, key: Key, cached: CachedDeployment) -> bool:
        engine, uid = cached.spec.engine.name, cached.metadata.uid

        async def ask(pod: Pod) -> CacheOperations | None:
            try:
                account = await cache_operations(dialer, engine, pod)
            except ObservationError as error:
                metrics.OBSERVATIONS.labels("cache", "error").inc()
                log.debug("no account of store operations", pod=pod.metadata.name, error=str(error))
                return None
            metrics.OBSERVATIONS.labels("cache", "answer" if account else "silent").inc()
            return account

        found = await _all(ask(pod) for pod in self._scene(key, cached) if not _is_router(pod) and _ready(pod))
        fresh = {account.pod_uid: account for account in found if account is not None}
        facts = self._board.read(key, uid)
        known = facts.cache_operations if facts else {}
        self._keep(key, uid, cache_operations=fresh)
        return {u: _verdict(a) for u, a in fresh.items()} != {u: _verdict(a) for u, a in known.items()}

    async def _forward(self, dialer: Dialer, key: Key, cached: CachedDeployment) -> bool:
        """Members of whole, ready Server replicas of several Pods, until each is bound once; a restarted Pod is another UID."""
        deployment, uid = cached.deployment, cached.metadata.uid
        pods = [pod for pod in self._scene(key, cached) if not _is_router(pod)]
        multi = {role.name for role in deployment.spec.roles if role.size > 1 and role.effective_kind == "Server" and not role.command}
        facts = self._board.read(key, uid)
        known = {u: entry for u, entry in (facts.forward if facts else {}).items() if any(pod.metadata.uid == u for pod in pods)}
        asked = [pod for pod in groups_to_ask(pods, multi) if pod.metadata.uid not in known or known[pod.metadata.uid].outcome != "Bound"]
        answers = await _all(
            forward(dialer, deployment.spec.engine.name, deployment.spec.model.name, pod, REPLICA_SECONDS) for pod in asked
        )
        fresh: dict[str, Forward] = {**known, **{answer.pod_uid: answer for answer in answers}}
        for answer in answers:
            metrics.OBSERVATIONS.labels("forward", answer.outcome.lower()).inc()
        self._keep(key, uid, forward=fresh)
        return fresh != (facts.forward if facts else {})

    async def _drain(self, dialer: Dialer, key: Key, cached: CachedDeployment) -> bool:
        targets = draining(cached)
        engine, uid = cached.spec.engine.name, cached.metadata.uid
        pods = [pod for pod in self._scene(key, cached) if pod.metadata.uid in targets]

        if not targets:
            return False  # it ended meanwhile
        restarts = self._restarts.setdefault(key, {})

        async def ask(pod: Pod) -> tuple[str, DrainRead]:
            reading = self._unreadable(engine, pod, restarts) or await drain_read(dialer, engine, pod, self._clock)
            metrics.OBSERVATIONS.labels("drain", reading.outcome.lower()).inc()
            return pod.metadata.uid, reading

        facts = self._board.read(key, uid)
        known = facts.drain if facts else {}
        fresh: dict[str, Drain] = {}
        for pod_uid, reading in await _all(ask(pod) for pod in pods):
            reads = known[pod_uid].reads if pod_uid in known else ()
            fresh[pod_uid] = Drain(pod_uid=pod_uid, reads=(*reads, reading)[-KEPT_READS:])
        self._keep(key, uid, drain=fresh)
        return True  # two idle reads in a row are news although they are alike

    async def _elastic(self, _: Dialer, key: Key, cached: CachedDeployment) -> bool:
        uid = cached.metadata.uid
        facts = self._board.read(key, uid)
        known = facts.elastic if facts else None
        try:
            fresh = await elastic_observation(self._client, key, uid)
        except ObservationError as error:
            metrics.OBSERVATIONS.labels("elastic", "error").inc()
            log.debug("no elastic observation", namespace=key.namespace, name=key.name, error=str(error))
            if isinstance(error, NotAllowedError):
                self._ask_at(key, "elastic", self._clock.monotonic() + AFTER_REFUSAL)
            return False  # the condition is left as it stands
        metrics.OBSERVATIONS.labels("elastic", "answer").inc()
        self._keep(key, uid, elastic=fresh)
        return fresh != known

    def _unreadable(self, engine: str, pod: Pod, seen: dict[str, int]) -> DrainRead | None:
        """A reading that says why the member is not asked: its kind cannot be read, or its counters began anew during the drain."""
        at = format_time(self._clock.now())
        if refusal := refused(engine, pod):
            return DrainRead(at=at, outcome="Refused", detail=refusal)
        restarts = sum(status.restart_count for status in pod.status.container_statuses if status.name == keys.MAIN_CONTAINER)
        if seen.setdefault(pod.metadata.uid, restarts) != restarts:
            seen[pod.metadata.uid] = restarts
            return DrainRead(at=at, outcome="Error", detail="the engine's container restarted")
        return None

    def _scene(self, key: Key, cached: CachedDeployment) -> list[Pod]:
        """The Pods that may be dialled: replica Pods of this very deployment, and its router's, departing ones included."""
        uid = cached.metadata.uid
        prefix = f"{key.name}-router-"
        found = []
        for pod in self._cache.pods(key):
            owner = pod.metadata.controller
            if owner is not None and (
                owner.uid == uid or (_is_router(pod) and owner.kind == "ReplicaSet" and owner.name.startswith(prefix))
            ):
                found.append(pod)
        return found


def draining(cached: CachedDeployment) -> frozenset[str]:
    """The UIDs whose drain has to be read now: those of a stored operation that drains."""
    raw = cached.status_json
    if b'"Draining"' not in raw:
        return frozenset()
    status = decode_status(raw)
    operation = status.retirement if status is not None else None
    return frozenset(operation.target_member_uids) if operation is not None and operation.state == "Draining" else frozenset()


def by_address(pods: Iterable[Pod]) -> dict[str, Pod]:
    """Pods by address. An address that two claim names nobody."""
    found: dict[str, Pod | None] = {}
    for pod in pods:
        if pod.status.pod_ip:
            found[pod.status.pod_ip] = pod if pod.status.pod_ip not in found else None
    return {address: pod for address, pod in found.items() if pod is not None}


def sameness(pods: Iterable[Pod]) -> frozenset[tuple[Any, ...]]:
    """What must not change while views are collected: who is there, who leaves, and under which address."""
    return frozenset((pod.metadata.uid, pod.metadata.deleting, pod.status.pod_ip, pod.status.phase) for pod in pods)


async def _all(waits: Iterable[Any]) -> list[Any]:
    return list(await asyncio.gather(*waits))


def _is_router(pod: Pod) -> bool:
    return keys.ROUTER in pod.metadata.labels


def _ended(pod: Pod) -> bool:
    return pod.metadata.deleting or pod.status.phase in TERMINAL


def _running(pod: Pod) -> bool:
    return pod.status.phase == "Running" and not pod.metadata.deleting


def _ready(pod: Pod) -> bool:
    reported = condition(pod.status.conditions, "Ready")
    return _running(pod) and reported is not None and reported.status == "True"


def _timeless(view: RouterView) -> RouterView:
    return msgspec.structs.replace(view, received_at=None)


def _verdict(account: CacheOperations) -> tuple[bool, bool]:
    return account.succeeded > 0, account.failed > 0
