"""Admission through webhooks, in the API server's order: mutating ones one after another, then validating ones side by side.

A refusal is the webhook's own Status under the server's sentence. A webhook that cannot be asked is judged by its failurePolicy.
"""

import asyncio
import base64
import binascii
from collections import deque
from collections.abc import Callable
from typing import Any

from local import statuses
from local.conditions import hold
from local.dialing import Dialer, WebhookCallError, request_of
from local.hooks import Hook, NamespaceLabels, candidates, selected
from local.kinds import Registry
from local.operation import Operation
from local.patches import PatchError, json_patch
from local.statuses import StatusError, UndecodableError
from local.wire import JSON, copy, decode

Configurations = Callable[[str], list[JSON]]


class Admission:
    """Finds the webhooks of a request and calls them."""

    def __init__(self, registry: Registry, configurations: Configurations, namespace_labels: NamespaceLabels) -> None:
        self.dialer = Dialer()
        self.audit: deque[JSON] = deque(maxlen=256)  # auditAnnotations of the latest calls, for tests and for people who look
        self._registry = registry
        self._configurations = configurations
        self._namespace_labels = namespace_labels

    def _hooks(self, plural: str, op: Operation, obj: JSON | None, old: JSON | None) -> list[Hook]:
        configurations = self._configurations(plural)
        if op.internal or not configurations:
            return []
        return list(candidates(configurations, op, self._registry, obj, old, namespace_labels=self._namespace_labels))

    async def mutate(self, op: Operation, obj: JSON | None, old: JSON | None, again: Callable[[JSON], JSON]) -> JSON | None:
        """The object after the mutating webhooks; `again` completes it after each patch (defaults, pruning)."""
        hooks = self._hooks("mutatingwebhookconfigurations", op, obj, old)
        revisit: list[Hook] = []
        for hook in hooks:
            obj, changed = await self._mutate_once(hook, op, obj, old, again)
            if changed:
                revisit = [earlier for earlier in hooks[: hooks.index(hook)] if earlier.spec.get("reinvocationPolicy") == "IfNeeded"]
        for hook in revisit:
            obj, _ = await self._mutate_once(hook, op, obj, old, again)
        return obj

    async def _mutate_once(
        self, hook: Hook, op: Operation, obj: JSON | None, old: JSON | None, again: Callable[[JSON], JSON]
    ) -> tuple[JSON | None, bool]:
        if not selected(hook, obj, old):
            return obj, False
        response = await self._ask(hook, op, obj, old)
        if response is None or not response.get("patch") or obj is None:
            return obj, False
        patched = apply_patch(hook.name, response["patch"], obj)
        try:
            return again(patched), patched != obj
        except UndecodableError as fault:  # what the webhook made of the object is no object of its kind
            raise statuses.internal(fault.message) from fault

    async def validate(self, op: Operation, obj: JSON | None, old: JSON | None) -> None:
        """Ask every validating webhook. Raises the first refusal in their order."""
        hooks = [hook for hook in self._hooks("validatingwebhookconfigurations", op, obj, old) if selected(hook, obj, old)]
        if len(hooks) == 1:
            await self._ask(hooks[0], op, obj, old)
            return
        outcomes = await asyncio.gather(*(self._ask(hook, op, obj, old) for hook in hooks), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    @staticmethod
    def _asked_for(hook: Hook, conditions: list[JSON], op: Operation, obj: JSON | None, old: JSON | None) -> bool:
        """Whether the webhook's own conditions hold. Raises 403 where that cannot be told and failurePolicy is Fail."""
        try:
            return hold(conditions, request_of("", hook, op, obj, old))
        except WebhookCallError as fault:
            if hook.fails_closed:
                raise statuses.forbidden(f'{op.served.plural} "{op.name}" is forbidden: webhook "{hook.name}": {fault}') from fault
            return False

    async def _ask(self, hook: Hook, op: Operation, obj: JSON | None, old: JSON | None) -> JSON | None:
        """The response of one webhook, or None where it could not be asked and may be ignored. Raises on refusal."""
        conditions = hook.spec.get("matchConditions")
        if conditions and not self._asked_for(hook, conditions, op, obj, old):
            return None
        if op.dry_run and hook.spec.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise statuses.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            response = await self.dialer.call(hook, op, obj, old)
        except WebhookCallError as fault:
            if hook.fails_closed:
                raise statuses.internal(f'failed calling webhook "{hook.name}": {fault}') from fault
            return None
        op.warnings += [str(text) for text in response.get("warnings") or ()]
        if response.get("auditAnnotations"):
            self.audit.append({"webhook": hook.name, "uid": response.get("uid"), "annotations": response["auditAnnotations"]})
        if not response.get("allowed"):
            raise refusal(hook.name, response.get("status") or {})
        return response


def refusal(name: str, status: JSON) -> StatusError:
    """The webhook's Status as the client sees it."""
    code = int(status.get("code") or 0)
    said = status.get("message") or status.get("reason")
    denied = f'admission webhook "{name}" denied the request'
    message = f"{denied}: {said}" if said else f"{denied} without explanation"
    return StatusError(max(code, 400), str(status.get("reason") or ""), message, details=status.get("details"))


def apply_patch(name: str, encoded: str, obj: JSON) -> JSON:
    """The object under a webhook's JSON patch. Raises 500, whatever the failurePolicy, as the API server does."""
    try:
        operations: Any = decode(base64.b64decode(encoded))
        patched = json_patch(copy(obj), operations)
    except (binascii.Error, ValueError) as fault:
        kind = "cannot apply" if isinstance(fault, PatchError) else "cannot read"
        raise statuses.internal(f'{kind} the patch of webhook "{name}": {fault}') from fault
    if not isinstance(patched, dict) or not isinstance(patched.setdefault("metadata", {}), dict):
        raise statuses.internal(f'the patch of webhook "{name}" leaves no object')
    return patched
