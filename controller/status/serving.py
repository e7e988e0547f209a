"""`endpoints.serving`: what the Routers were actually observed to select.

A view counts when it is complete, fresh and bound to identities: every selected worker is a live, running Pod of ours that declares the
port, and the view itself is a router Pod's that we know, down from the Deployment that this deployment controls. Every live router Pod owes
one. A missing view is never an empty selection.

Source: seed "Endpoint eligibility", status facts 6.2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from api import keys
from api.clock import parse_time
from api.objects import ModelDeployment, Pod
from api.status import Serving
from controller.snapshot import RouterView, Snapshot
from controller.status import router
from controller.status.replicas import Fleet, decimal, terminal

FRESH: Final = timedelta(seconds=15)
NO_VIEW: Final = "NoRouterView"
STALE: Final = "RouterViewStale"
DISAGREE: Final = "RouterViewsDisagree"


@dataclass(frozen=True)
class Selection:
    """The aggregate over all views.

    `state` is that of `endpoints.serving`. `cause` names what keeps a router's answer from being a valid observation. `complete`: every
    view that is owed was read and is some known router Pod's, whether or not they agree. `selected` are the (Pod UID, port) pairs that some
    view selects; that a pair is not among them is evidence only where the answer is complete.
    """

    state: str
    cause: str = ""
    complete: bool = False
    selected: frozenset[tuple[str, int]] = field(default_factory=frozenset)

    @property
    def valid(self) -> bool:
        """Whether the routers' observation holds no group back."""
        return self.state in {"Confirmed", "NotConfigured"}

    def pods(self) -> frozenset[str]:
        """UIDs of the Pods that some view selects."""
        return frozenset(uid for uid, _ in self.selected)


def selection_of(snapshot: Snapshot, fleet: Fleet) -> Selection:
    """Judge the views.

    First match: not configured, nothing read or nobody to ask, an error or a worker that is no endpoint of ours, views without an identity,
    a missing or a stranger's view, a stale one, disagreement, confirmed.
    """
    deployment = snapshot.deployment
    if deployment.spec.router is None:
        return Selection("NotConfigured")
    views = snapshot.observations.router_views if snapshot.observations else ()
    deployed = router.owned(deployment, snapshot.router_deployment) is not None
    routers = router_pods(deployment, snapshot.router_pods) if deployed else ()
    owed = {pod.metadata.uid for pod in routers if not pod.metadata.deleting and not terminal(pod)}
    known = {pod.metadata.uid for pod in routers}
    departing = known - owed
    # A departing router owes nothing: what it still says counts, that it says nothing does not.
    counted = [view for view in views if view.router_pod_uid not in departing or (not view.error and _fresh(view, snapshot.now))]
    if not counted or not owed:
        return Selection("Unknown", NO_VIEW)
    bindable = {pod.metadata.uid: _ports(pod) for pod in fleet.live if _bindable(pod)}
    if any(view.error or not view.boot_generation or not _binds(view, bindable) for view in counted):
        return Selection("Unknown", NO_VIEW)
    nameless = [view for view in counted if not view.router_pod_uid]
    fresh = all(_fresh(view, snapshot.now) for view in counted)
    if nameless:
        # Nobody knows whose these are: two boots among them disagree, and beyond that they prove nothing.
        torn = fresh and len({view.boot_generation for view in nameless}) > 1
        return Selection("NotConverged", DISAGREE) if torn else Selection("Unknown", NO_VIEW)
    named = {view.router_pod_uid for view in counted}
    if not owed <= named <= known:
        return Selection("Unknown", NO_VIEW)
    if not fresh:
        return Selection("Unknown", STALE)
    selected = _selected(counted)
    return Selection("NotConverged", DISAGREE, True, selected) if _disagree(counted) else Selection("Confirmed", "", True, selected)


def serving_of(selection: Selection, members: Iterable[str]) -> Serving:
    """One role's `serving`: the count is of distinct physical endpoints among the role's member UIDs."""
    if selection.state != "Confirmed":
        return Serving(state=selection.state)
    mine = set(members)
    return Serving(state="Confirmed", value=sum(uid in mine for uid, _ in selection.selected))


def router_pods(deployment: ModelDeployment, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The managed router's Pods: by labels, and of a ReplicaSet of the router's own Deployment."""
    declared, metadata = deployment.spec.router, deployment.metadata
    if declared is None:
        return ()
    wanted = {keys.NAME: keys.NAME_VALUE, keys.INSTANCE: metadata.name, keys.ROUTER: declared.name}
    prefix = f"{metadata.name}-router-"
    return tuple(pod for pod in pods if wanted.items() <= pod.metadata.labels.items() and _of_replica_set(pod, prefix))


def _selected(views: Iterable[RouterView]) -> frozenset[tuple[str, int]]:
    return frozenset((worker.pod_uid, worker.port) for view in views for worker in view.workers if worker.in_selection)


def _of_replica_set(pod: Pod, prefix: str) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "ReplicaSet" and owner.name.startswith(prefix)


def _bindable(pod: Pod) -> bool:
    """Running, with a role label and a decimal seat; a replica of one Pod need not claim one."""
    labels, seat = pod.metadata.labels, pod.metadata.labels.get(keys.MEMBER_INDEX)
    alone = seat is None and pod.metadata.annotations.get(keys.POD_GROUP_TOTAL_COUNT, "1") == "1"
    return pod.status.phase == "Running" and keys.ROLE_KIND in labels and (alone or decimal(seat) is not None)


def _ports(pod: Pod) -> frozenset[int]:
    return frozenset(port.container_port for container in pod.spec.containers for port in container.ports)


def _binds(view: RouterView, bindable: Mapping[str, frozenset[int]]) -> bool:
    """Whether every selected worker is one of our live endpoints. Rows out of selection need not be."""
    return all(worker.port in bindable.get(worker.pod_uid, frozenset()) for worker in view.workers if worker.in_selection)


def _fresh(view: RouterView, now: datetime) -> bool:
    """Whether the view is of this moment. One from well ahead of the clock, which was set back meanwhile, is not: it would stay young."""
    if view.received_at is None:
        return False
    try:
        return abs(now - parse_time(view.received_at)) <= FRESH
    except ValueError:
        return False


def _disagree(views: Iterable[RouterView]) -> bool:
    """One router with two boot generations, or one endpoint that two views select or name differently.

    The virtual ranks of an endpoint are folded before: a view selects it where it selects one of them.
    """
    generations: dict[str, int | None] = {}
    seen: dict[tuple[str, int], tuple[bool, str]] = {}
    for view in views:
        if generations.setdefault(view.router_pod_uid, view.boot_generation) != view.boot_generation:
            return True
        chosen = {(worker.pod_uid, worker.port) for worker in view.workers if worker.in_selection}
        for worker in view.workers:
            endpoint = (worker.pod_uid, worker.port)
            said = (endpoint in chosen, worker.role)
            if seen.setdefault(endpoint, said) != said:
                return True
    return False
