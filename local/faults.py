"""Switches for tests: make the embedded cluster behave as a bad day would. Nothing here is on unless somebody switches it on."""

from collections.abc import Callable
from dataclasses import dataclass

from api.clock import Clock
from local import statuses
from local.statuses import StatusError
from local.store import Store, Table

_FAULTS: dict[int, Callable[[], StatusError]] = {
    409: lambda: StatusError(409, "Conflict", f"Operation cannot be fulfilled on the object: {statuses.STALE}"),
    410: lambda: statuses.expired("too old resource version"),
    429: lambda: StatusError(429, "TooManyRequests", "Too many requests, please try again later.", retry_after=1),
    500: lambda: statuses.internal("a fault that a test asked for"),
    503: lambda: StatusError(503, "ServiceUnavailable", "the server is currently unable to handle the request", retry_after=1),
    504: lambda: StatusError(504, "Timeout", "the request did not complete in time"),
}


@dataclass(slots=True)
class _Switch:
    code: int
    delay: float
    verb: str | None
    resource: str | None
    times: int
    retry_after: int | None

    def meets(self, verb: str, resource: str) -> bool:
        """Whether this request is one of those that were meant."""
        return self.times > 0 and self.verb in {None, verb} and self.resource in {None, resource}


class Faults:
    """The switches. None means any.

    `verb` is get, list, watch, create, update, patch or delete; `resource` a plural, with `/subresource` where there is one.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._switches: list[_Switch] = []
        self._twice: dict[str, int] = {}

    def fail(
        self, code: int, *, verb: str | None = None, resource: str | None = None, times: int = 1, retry_after: int | None = None
    ) -> None:
        """Answer the next `times` such requests with this code, before anything else happens to them."""
        self._switches.append(_Switch(code, 0.0, verb, resource, times, retry_after))

    def delay(self, seconds: float, *, verb: str | None = None, resource: str | None = None, times: int = 1) -> None:
        """Answer the next `times` such requests that much later, on the cluster's clock."""
        self._switches.append(_Switch(0, seconds, verb, resource, times, None))

    def clear(self) -> None:
        """Switch everything off."""
        self._switches.clear()
        self._twice.clear()

    async def before(self, verb: str, resource: str) -> None:
        """Called for every request. Raises what was asked for."""
        for switch in [switch for switch in self._switches if switch.meets(verb, resource)]:
            switch.times -= 1
            if switch.times == 0:
                self._switches.remove(switch)
            if switch.code:
                make = _FAULTS.get(switch.code)
                fault = make() if make else StatusError(switch.code, "", "a fault that a test asked for")
                if switch.retry_after is not None:
                    fault.retry_after = switch.retry_after
                raise fault
            await self._clock.sleep(switch.delay)

    # -------------------------------------------------------------------------------------------------------- watches

    def _tables(self, resource: str | None) -> list[Table]:
        return [table for name, table in self._store.tables.items() if resource in {None, name[1]}]

    def drop_watches(self, resource: str | None = None) -> int:
        """End every open watch as a broken connection would; how many there were."""
        watchers = [watcher for table in self._tables(resource) for watcher in table.watchers]
        for watcher in watchers:
            watcher.end()
        return len(watchers)

    def expire_watches(self, resource: str | None = None) -> int:
        """End every open watch with a 410 event."""
        watchers = [watcher for table in self._tables(resource) for watcher in table.watchers]
        for watcher in watchers:
            watcher.end(statuses.expired("too old resource version"))
        return len(watchers)

    def forget_history(self, resource: str | None = None) -> None:
        """Every watch and page that starts from an older version reads 410 from now on."""
        for table in self._tables(resource):
            table.forget_history(self._store.revision)

    def duplicate_events(self, resource: str, times: int = 1) -> None:
        """Send the next `times` watch events of the resource twice."""
        self._twice[resource] = self._twice.get(resource, 0) + times

    def copies(self, resource: str) -> int:
        """How often the next event of the resource is to be sent."""
        left = self._twice.get(resource, 0)
        if not left:
            return 1
        self._twice[resource] = left - 1
        return 2
