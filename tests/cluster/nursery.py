"""Controllers as processes of their own, to be killed and frozen: one program that has imported everything forks a child for each order.

Run as a script. It reads an order a line (JSON) from standard input and answers `born <pid>`. A child tells of each of its writes on the
same standard output: `did <pid> <point> <uid>`, `refused` with the code behind it, or `cut` where the writer was cancelled meanwhile. An
order may name the point at which the child holds still for ever and says `held <pid>`: `after:` a write reached the server and before its
answer is heard, or `before:` it is sent. With `stopped` it sends itself SIGSTOP instead, and goes on when it is let. Points:
`status:<state of the retirement>`, `status:cleared`, `status`, `label`, `unlabel`, `clearRetry`, `delete:Pod`, `delete:Workload`.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def tell(*words: object) -> None:
    """One line, in one write, so that lines of several children do not mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def point_of(verb: str, resource: Any, body: bytes | None, subresource: str | None) -> str:
    """What a write is for."""
    if verb == "delete":
        return f"delete:{resource.kind}"
    patch = json.loads(body or b"{}")
    if subresource == "status":
        operation = (patch.get("status") or {}).get("retirement", {})
        if operation is None:
            return "status:cleared"
        return f"status:{operation['state']}" if "state" in operation else "status"
    labels = patch.get("metadata", {}).get("labels")
    if labels:
        return "unlabel" if None in labels.values() else "label"
    return "clearRetry"


class Holding:
    """A client that holds still at its `count`-th write for a purpose."""

    def __init__(self, client: Any, order: dict[str, Any]) -> None:
        self._client = client
        self._when, _, self._point = str(order.get("hold", "")).partition(":")
        self._left = int(order.get("count", 1))
        self._stops = bool(order.get("stopped"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def _hold(self, when: str, point: str) -> None:
        if (when, point) != (self._when, self._point):
            return
        self._left -= 1
        if self._left != 0:
            return
        tell("held", os.getpid())
        if self._stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            await asyncio.Event().wait()

    async def patch(self, resource: Any, name: str, body: bytes, *args: Any, **options: Any) -> bytes:
        """Told and held."""
        point = point_of("patch", resource, body, options.get("subresource"))
        uid = json.loads(body).get("metadata", {}).get("uid", "-")
        return await self._write(point, uid, lambda: self._client.patch(resource, name, body, *args, **options))

    async def delete(self, resource: Any, name: str, *args: Any, **options: Any) -> bytes:
        """Told and held."""
        point = point_of("delete", resource, None, None)
        return await self._write(point, options.get("uid"), lambda: self._client.delete(resource, name, *args, **options))

    async def _write(self, point: str, whose: Any, write: Any) -> bytes:
        await self._hold("before", point)
        try:
            answer: bytes = await write()
        except asyncio.CancelledError:
            tell("cut", os.getpid(), point, whose)
            raise
        except Exception as fault:
            tell("refused", os.getpid(), point, whose, getattr(fault, "code", 0))
            raise
        tell("did", os.getpid(), point, whose)
        await self._hold("after", point)
        return answer


async def live(order: dict[str, Any]) -> None:
    """Be a controller until killed."""
    from app.clock import SystemClock
    from controller.service import Controller
    from controller.settings import ControllerSettings, ObserverSettings
    from controller.snapshot import StatusSettings
    from kube.config import connect

    observers = ObserverSettings(allow_local_addresses=True, router_period=0.5, drain_period=0.5)
    settings = ControllerSettings(
        status=StatusSettings(act="retire"),
        observers=observers,
        namespace=order["namespace"],
        identity=order.get("identity", "child"),
        leader_election=bool(order.get("lease")),
        lease_name="modelwarden-test",
        lease_namespace=order["namespace"],
        lease_duration=4.0,
        renew_deadline=3.0,
        retry_period=0.5,
    )
    async with await connect(order["kubeconfig"]) as client:
        await Controller(Holding(client, order), settings, SystemClock()).run()  # type: ignore[arg-type]  # a client in all that is used


def main() -> None:
    """Fork until standard input ends, then take the children along."""
    sys.path.insert(0, str(ROOT))
    import httpx
    import structlog

    import app.clock
    import controller.service
    import kube.config

    del app, controller, httpx, kube
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            try:
                asyncio.run(live(json.loads(line)))
            finally:
                tell("ended", os.getpid())
                os._exit(1)
        children.append(pid)
        tell("born", pid)
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
