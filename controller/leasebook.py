"""Several Leases as one replica sees them: read by one list, each with the moment, by our own clock, at which it was seen to change.

A write goes over the version that was read, so it meets what its writer saw or fails. The times inside a Lease are not compared with ours.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from api.clock import Clock
from controller.election import PATIENCE, Lease, LeaseMeta, LeaseSpec, micro_time
from controller.settings import ControllerSettings
from controller.waiting import within
from kube.client import Client
from kube.errors import Conflict, KubeError
from kube.resources import LEASES

log = structlog.get_logger("controller.leases")


class _Named(msgspec.Struct, frozen=True):
    metadata: LeaseMeta = LeaseMeta()


_name_of: Final = msgspec.json.Decoder(_Named).decode
_lease_of: Final = msgspec.json.Decoder(Lease).decode


@dataclass(frozen=True, slots=True)
class Sight:
    """A Lease, when its spec was seen to change, and whether the last look showed such a change."""

    lease: Lease
    at: float
    changed: bool = False

    @property
    def holder(self) -> str:
        """Who holds it, or held it last; empty when it was freed."""
        return self.lease.spec.holder_identity or ""

    @property
    def notes(self) -> dict[str, str]:
        """Its annotations."""
        return self.lease.metadata.annotations


class LeaseBook:
    """The Leases of those names."""

    def __init__(self, client: Client, settings: ControllerSettings, clock: Clock, names: Collection[str]) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._names = frozenset(names)
        self._sights: dict[str, Sight] = {}
        self._answers: dict[str, int] = {}  # how many of our writes to a Lease were answered

    def get(self, name: str) -> Sight | None:
        """As it was last seen; None where there is none."""
        return self._sights.get(name)

    def takeable(self, sight: Sight) -> bool:
        """Whether it is free, or unchanged for its own duration."""
        spec = sight.lease.spec
        return not sight.holder or self._clock.monotonic() - sight.at >= (spec.lease_duration_seconds or self._settings.lease_duration)

    async def look(self) -> None:
        """Read them all. Raises KubeError, TimeoutError or MsgspecError, and knows nothing new then.

        A list that was under way while a write of ours was answered may be older than that answer, and tells nothing of that Lease.
        """
        before = dict(self._answers)
        found = await within(self._clock, self._settings.renew_deadline * PATIENCE, self._list())
        for name in self._names:
            if self._answers.get(name) == before.get(name):
                if name in found:
                    self._observe(found[name])
                else:
                    self._sights.pop(name, None)

    async def put(self, name: str, holder: str | None, notes: dict[str, str | None] | None = None, *, within_seconds: float = 1e9) -> bool:
        """Write one over what was read of it, or make it. `holder` None leaves the spec, empty frees it; a note that is None goes.

        False when that was not done within the seconds given, and most of the renew deadline.
        """
        sight = self._sights.get(name)
        lease = sight.lease if sight is not None else Lease(metadata=LeaseMeta(name, self._settings.lease_namespace))
        annotations = {key: text for key, text in (lease.metadata.annotations | (notes or {})).items() if text is not None}
        lease = msgspec.structs.replace(
            lease,
            metadata=msgspec.structs.replace(lease.metadata, annotations=annotations),
            spec=lease.spec if holder is None else self._held(lease.spec, holder, new=sight is None),
        )
        body, namespace = msgspec.json.encode(lease), self._settings.lease_namespace
        write = self._client.create(LEASES, body, namespace) if sight is None else self._client.replace(LEASES, name, body, namespace)
        try:
            answer = await within(self._clock, min(self._settings.renew_deadline * PATIENCE, max(within_seconds, 0.0)), write)
            self._observe(_lease_of(answer))
        except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
            level = log.debug if isinstance(error, Conflict) else log.warning
            level("lease not written", lease=name, error=str(error))
            return False
        self._answers[name] = self._answers.get(name, 0) + 1
        return True

    def _held(self, spec: LeaseSpec, holder: str, *, new: bool) -> LeaseSpec:
        now = micro_time(self._clock.now())
        kept = not holder or spec.holder_identity == holder
        return LeaseSpec(
            holder,
            math.ceil(self._settings.lease_duration) if holder else 1,
            spec.acquire_time if kept else now,
            now,
            (spec.lease_transitions or 0) + (0 if kept or new else 1),
        )

    async def _list(self) -> dict[str, Lease]:
        found: dict[str, Lease] = {}
        async for page in self._client.pages(LEASES, self._settings.lease_namespace):
            if page.number == 0:
                found = {}
            for raw in page.items:
                name = _name_of(raw).metadata.name
                if name in self._names:
                    found[name] = _lease_of(raw)
        return found

    def _observe(self, lease: Lease) -> None:
        known = self._sights.get(lease.metadata.name)
        changed = known is not None and known.lease.spec != lease.spec
        at = self._clock.monotonic() if known is None or changed else known.at
        self._sights[lease.metadata.name] = Sight(lease, at, changed)
