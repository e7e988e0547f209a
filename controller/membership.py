"""A deployment's Pods read past the cache: what alone can prove that a group's members are still the ones that qualified."""

import asyncio
from contextlib import aclosing
from typing import Final

import msgspec

from api import keys
from api.objects import Pod
from controller.snapshot import Membership
from controller.store import Key
from kube.client import Client
from kube.errors import RequestTimeout, TransportError
from kube.resources import PODS

# The read stands in the way of one deployment's pass: past this the pass is tried again instead.
SECONDS: Final = 10.0

_POD = msgspec.json.Decoder(Pod)


class MembershipReader:
    """Lists the Pods of one deployment by its labels."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def membership(self, key: Key) -> Membership:
        """The Pods as the API server has them now. Raises the kube error tree: a failed read proves nothing and disproves nothing."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self._read(key)
        except TimeoutError as late:
            raise RequestTimeout(f"the Pods of {key.namespace}/{key.name} were not listed within {SECONDS:g} s") from late
        except msgspec.MsgspecError as fault:
            raise TransportError(f"a Pod of {key.namespace}/{key.name} cannot be read: {fault}") from fault

    async def _read(self, key: Key) -> Membership:
        selector = f"{keys.NAME}={keys.NAME_VALUE},{keys.INSTANCE}={key.name}"
        pods: list[Pod] = []
        pages = self._client.pages(PODS, key.namespace, label_selector=selector)
        async with aclosing(pages):
            async for page in pages:
                if page.number == 0:
                    pods = []
                pods.extend(_POD.decode(raw) for raw in page.items)
        return Membership(pods=tuple(pods))
