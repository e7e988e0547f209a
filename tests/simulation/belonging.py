"""Whose is what: every Pod and Workload that there ever was, by the deployment that controls it, and what a status names of others.

A status is read as a text: whatever of it is a UID or the name of a Pod has to be one of the deployment's own, in whatever field or message
it stands. A name may have had several owners in turn.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import msgspec

from api import keys
from controller.kinds import MODEL_DEPLOYMENTS
from kube.resources import PODS, SERVICES
from tests.simulation.actors import is_router
from tests.simulation.objects import controller_uid
from tests.simulation.store import Change, Object, labels, meta
from tests.simulation.world import World

WORD: Final = re.compile(r"[a-z0-9][a-z0-9-]{5,}")


class Belonging:
    """Learns from every write."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owners: defaultdict[str, set[str]] = defaultdict(set)  # UID or name -> UIDs of deployments, or of whoever else
        world.watch(self._on_change)

    def _on_change(self, change: Change) -> None:
        item = change.object
        if change.resource is PODS and not is_router(item):
            self._learn(item, {controller_uid(item)})
        elif change.resource is self._world.workloads:
            owners = [self._owners[reference["uid"]] for reference in meta(item).get("ownerReferences") or []]
            self._learn(item, set().union(*owners))
        elif change.resource is MODEL_DEPLOYMENTS:
            self._owners[meta(item)["uid"]].add(meta(item)["uid"])

    def _learn(self, item: Object, owners: set[str]) -> None:
        for named in (meta(item)["uid"], meta(item)["name"]):
            self._owners[named] |= owners

    def foreign(self, deployment: Object) -> Iterator[str]:
        """What the deployment's status has of others."""
        uid, status = meta(deployment)["uid"], deployment.get("status") or {}
        for word in dict.fromkeys(WORD.findall(msgspec.json.encode(status).decode())):
            if word in self._owners and uid not in self._owners[word]:
                yield f"{meta(deployment)['name']} names {word}"
        for role in (status.get("router") or {}).get("roles") or []:
            if keys.ENDPOINT_ELIGIBLE in role["selector"] and not self._narrowed(deployment, role["name"]):
                yield f"{meta(deployment)['name']}: role {role['name']} has the narrowed selector of a Service that is another's"

    def _narrowed(self, deployment: Object, role: str) -> bool:
        """Whether some Service of that role of that very deployment was ever narrowed."""
        name = f"{meta(deployment)['name']}-{role}"
        history = self._world.store.collection(SERVICES)
        told = [change.object for change in history.history] + list(history.objects.values())
        mine = [item for item in told if meta(item)["name"] == name and controller_uid(item) == meta(deployment)["uid"]]
        return any(keys.ENDPOINT_ELIGIBLE in item["spec"]["selector"] for item in mine) or bool(
            any(labels(pod).get(keys.ENDPOINT_ELIGIBLE) for pod in self._world.pods() if controller_uid(pod) == meta(deployment)["uid"])
        )
