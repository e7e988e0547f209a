"""What `kubectl get md -A -w` would show, followed from the API server itself: the rows of `mdctl run`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog

from api import keys
from api.clock import Clock, parse_time
from api.objects import ModelDeployment
from api.status import decode_status
from kube.client import Client
from kube.errors import Gone, KubeError
from kube.resources import Resource

log = structlog.get_logger("run")

DEPLOYMENTS = Resource(keys.GROUP, keys.VERSION, "modeldeployments", keys.MODEL_DEPLOYMENT)
LEAST_SECONDS = 1.0  # between two starts: a server that ends every watch at once is not asked without a breath
HEADINGS = ("NAMESPACE", "NAME", "ENGINE", "ROLES", "PHASE", "ENDPOINT", "AGE", "MESSAGE")

_DECODER = msgspec.json.Decoder(ModelDeployment)


@dataclass(frozen=True, slots=True)
class Line:
    """One deployment as the table shows it."""

    namespace: str
    name: str
    engine: str
    roles: str
    phase: str
    endpoint: str
    message: str
    created: datetime | None
    observed: bool

    def cells(self, now: datetime) -> tuple[str, ...]:
        """The columns of HEADINGS."""
        age = short_age(now - self.created) if self.created else ""
        return (self.namespace, self.name, self.engine, self.roles, self.phase, self.endpoint, age, self.message)

    def sentence(self) -> str:
        """The line that is printed where there is no terminal."""
        stale = " (of an older spec)" if self.phase and not self.observed else ""
        parts = [f"{self.namespace}/{self.name}", self.roles or "-", (self.phase or "-") + stale]
        if self.endpoint:
            parts.append(self.endpoint)
        return "  ".join(parts) + (f"  {self.message}" if self.message else "")


def short_age(age: timedelta) -> str:
    """As kubectl writes ages: 7s, 3m12s, 25m, 5h, 4d."""
    seconds = max(0, int(age.total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h"
    return f"{hours // 24}d"


def line_of(deployment: ModelDeployment) -> Line:
    """The row of a deployment."""
    status = decode_status(deployment.status)
    meta = deployment.metadata
    return Line(
        namespace=meta.namespace,
        name=meta.name,
        engine=deployment.spec.engine.name,
        roles=status.role_summary if status else "",
        phase=status.phase if status else "",
        endpoint=status.endpoint if status else "",
        message=status.phase_message if status else "",
        created=parse_time(meta.creation_timestamp) if meta.creation_timestamp else None,
        observed=status is not None and (status.observed_generation or 0) >= meta.generation,
    )


class Board:
    """The rows, kept current. `changed` is told each row that became another; None for one that is gone."""

    def __init__(self, client: Client, clock: Clock, changed: Callable[[str, Line | None], None]) -> None:
        self._client = client
        self._clock = clock
        self._changed = changed
        self._raw: dict[str, bytes] = {}
        self._lines: dict[str, Line] = {}
        self.changes = 0

    def lines(self) -> list[Line]:
        """Every row, by namespace and name."""
        return [self._lines[key] for key in sorted(self._lines)]

    def documents(self) -> Iterable[bytes]:
        """The JSON of every deployment, by namespace and name."""
        return [self._raw[key] for key in sorted(self._raw)]

    async def run(self) -> None:
        """List, then watch; again when the watch ends. Never returns."""
        while True:
            started = self._clock.monotonic()
            try:
                version = await self._list()
                async for event in self._client.watch(DEPLOYMENTS, resource_version=version):
                    if event.type == "DELETED":
                        self._drop(_key(_DECODER.decode(event.object)))
                    elif event.type != "BOOKMARK":
                        self._put(bytes(event.object))
            except Gone:
                pass
            except KubeError as error:
                log.warning("the table's watch broke", error=str(error))
            if (early := LEAST_SECONDS - (self._clock.monotonic() - started)) > 0:
                await self._clock.sleep(early)

    async def _list(self) -> str:
        version, seen = "", set()
        async for page in self._client.pages(DEPLOYMENTS):
            version = page.resource_version
            for raw in page.items:
                seen.add(self._put(bytes(raw)))
        for key in set(self._lines) - seen:
            self._drop(key)
        return version

    def _put(self, raw: bytes) -> str:
        deployment = _DECODER.decode(raw)
        key, line = _key(deployment), line_of(deployment)
        self._raw[key] = raw
        if self._lines.get(key) != line:
            self._lines[key] = line
            self.changes += 1
            self._changed(key, line)
        return key

    def _drop(self, key: str) -> None:
        self._raw.pop(key, None)
        if self._lines.pop(key, None) is not None:
            self.changes += 1
            self._changed(key, None)


def _key(deployment: ModelDeployment) -> str:
    return f"{deployment.metadata.namespace}/{deployment.metadata.name}"
