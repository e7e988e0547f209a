"""What was observed of each deployment, kept for the next pass. Facts carry their moment; a deployment that is gone leaves nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from controller.snapshot import CacheOperations, Drain, ElasticObservation, Forward, Membership, Observations, RouterView
from controller.store import Key


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about one deployment of one UID, by the UID of the Pod that gave them."""

    uid: str
    cache_operations: dict[str, CacheOperations] = field(default_factory=dict)
    forward: dict[str, Forward] = field(default_factory=dict)
    router_views: tuple[RouterView, ...] = ()
    drain: dict[str, Drain] = field(default_factory=dict)
    elastic: ElasticObservation | None = None
    membership: Membership | None = None

    def observations(self) -> Observations:
        """In the form that a judgement reads, in the order of the UIDs."""
        return Observations(
            cache_operations=tuple(self.cache_operations[uid] for uid in sorted(self.cache_operations)),
            forward=tuple(self.forward[uid] for uid in sorted(self.forward)),
            router_views=tuple(sorted(self.router_views, key=lambda view: view.router_pod_uid)),
            drain=tuple(self.drain[uid] for uid in sorted(self.drain)),
            elastic=self.elastic,
        )


class Board:
    """Facts by deployment key; facts of another UID of that name are never handed out."""

    def __init__(self) -> None:
        self._facts: dict[Key, Facts] = {}

    def read(self, key: Key, uid: str) -> Facts | None:
        """What is known of that very object."""
        facts = self._facts.get(key)
        return facts if facts is not None and facts.uid == uid else None

    def put(self, key: Key, facts: Facts) -> None:
        """Replace what is known."""
        self._facts[key] = facts

    def amend(self, key: Key, uid: str, **parts: object) -> Facts:
        """Replace some parts, on what is known of that very object."""
        facts = replace(self.read(key, uid) or Facts(uid), **parts)  # type: ignore[arg-type]  # the fields' own types
        self._facts[key] = facts
        return facts

    def forget(self, key: Key) -> None:
        """The deployment is gone."""
        self._facts.pop(key, None)

    def clear(self, of: Callable[[str], bool] = lambda _: True) -> None:
        """Forget everything about those UIDs: what another process led over meanwhile is not known."""
        self._facts = {key: facts for key, facts in self._facts.items() if not of(facts.uid)}

    def __len__(self) -> int:
        return len(self._facts)
