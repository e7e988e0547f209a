"""The call to one webhook: an AdmissionReview over HTTPS, its certificate verified against the caBundle, its answer taken apart.

WebhookCallError      the webhook could not be asked or did not answer properly: failurePolicy decides
"""

import asyncio
import base64
import binascii
import ssl
import uuid
from urllib.parse import urlsplit

import aiohttp

from local.hooks import Hook
from local.operation import Operation
from local.statuses import LocalError
from local.wire import JSON, decode, encode


class WebhookCallError(LocalError):
    """The webhook could not be asked."""


ANSWER_LIMIT = 8 << 20


class Dialer:
    """Keeps connections to webhooks open, one TLS context per caBundle and server name."""

    def __init__(self) -> None:
        self.services: dict[tuple[str, str], tuple[str, int]] = {}
        self._contexts: dict[tuple[str, str], ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _context(self, bundle: str, name: str) -> ssl.SSLContext:
        context = self._contexts.get((bundle, name))
        if context is None:
            if bundle:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.load_verify_locations(cadata=base64.b64decode(bundle).decode())
            else:
                context = ssl.create_default_context()  # the machine's own authorities, which take a moment to read
            if len(self._contexts) > 64:
                self._contexts.clear()  # a rotating caBundle must not keep every old context
            self._contexts[bundle, name] = context
        return context

    def _target(self, hook: Hook) -> tuple[str, str]:
        """URL to dial and the server name to verify."""
        config = hook.spec.get("clientConfig") or {}
        if config.get("url"):
            url = str(config["url"])
            return url, urlsplit(url).hostname or ""
        service = config.get("service") or {}
        where = (service.get("namespace", ""), service.get("name", ""))
        address = self.services.get(where)
        if address is None:
            raise WebhookCallError(
                f'Post "https://{where[1]}.{where[0]}.svc:{service.get("port", 443)}": service "{where[1]}" has no endpoints'
            )
        path = "/" + str(service.get("path", "")).lstrip("/")
        return f"https://{address[0]}:{address[1]}{path}", f"{where[1]}.{where[0]}.svc"

    async def call(self, hook: Hook, op: Operation, obj: JSON | None, old: JSON | None) -> JSON:
        """The `response` of the review. Raises WebhookCallError."""
        url, server_name = self._target(hook)
        seconds = int(hook.spec.get("timeoutSeconds", 10))
        full = f"{url}{'&' if '?' in url else '?'}timeout={seconds}s"
        uid = str(uuid.uuid4())
        version = next((v for v in hook.spec.get("admissionReviewVersions") or ("v1",) if v in {"v1", "v1beta1"}), "v1")
        body = encode(
            {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request_of(uid, hook, op, obj, old)}
        )
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=90), auto_decompress=True)
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*", "User-Agent": "kube-apiserver-admission"}
        try:
            context = self._context(str((hook.spec.get("clientConfig") or {}).get("caBundle") or ""), server_name)
            async with (
                asyncio.timeout(seconds),
                self._session.post(full, data=body, headers=headers, ssl=context, server_hostname=server_name) as answer,
            ):
                raw = b""
                async for chunk in answer.content.iter_any():
                    raw += chunk
                    if len(raw) > ANSWER_LIMIT:
                        raise WebhookCallError(f'failed to call webhook: Post "{full}": the answer is longer than {ANSWER_LIMIT} bytes')
                if answer.status != 200:
                    raise WebhookCallError(
                        f"the server responded with the status code {answer.status}: {raw[:500].decode(errors='replace').strip()}"
                    )
        except TimeoutError as fault:
            raise WebhookCallError(f'failed to call webhook: Post "{full}": context deadline exceeded') from fault
        except (aiohttp.ClientError, ssl.SSLError, OSError, binascii.Error, UnicodeDecodeError) as fault:
            raise WebhookCallError(f'failed to call webhook: Post "{full}": {fault}') from fault
        return response_of(raw, uid, version, mutating=hook.mutating)


def request_of(uid: str, hook: Hook, op: Operation, obj: JSON | None, old: JSON | None) -> JSON:
    """`AdmissionReview.request`."""
    served, sent = op.served, hook.sent_as
    out: JSON = {
        "uid": uid,
        "kind": {"group": sent.group, "version": sent.version, "kind": sent.kind},
        "resource": {"group": sent.group, "version": sent.version, "resource": sent.plural},
        "requestKind": {"group": served.group, "version": served.version, "kind": served.kind},
        "requestResource": {"group": served.group, "version": served.version, "resource": served.plural},
    }
    if op.subresource:
        out["subResource"] = out["requestSubResource"] = op.subresource
    if op.name:
        out["name"] = op.name
    if served.namespaced:
        out["namespace"] = op.namespace
    elif served.kind == "Namespace" and not served.group:
        out["namespace"] = op.name
    out["operation"] = op.kind
    out["userInfo"] = op.caller.to_json()
    out["object"] = _sent(obj, sent.api_version)
    out["oldObject"] = _sent(old, sent.api_version)
    out["dryRun"] = op.dry_run
    out["options"] = op.options_object()
    return out


def _sent(obj: JSON | None, api_version: str) -> JSON | None:
    if obj is None:
        return None
    return obj if obj.get("apiVersion") == api_version else {**obj, "apiVersion": api_version}


def response_of(raw: bytes, uid: str, version: str, *, mutating: bool) -> JSON:
    """The answer's `response`, checked as the API server checks it. Raises WebhookCallError."""
    try:
        review = decode(raw)
    except ValueError as fault:
        raise WebhookCallError(f"failed to call webhook: couldn't get version/kind; json parse error: {fault}") from fault
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview" or review.get("apiVersion") != f"admission.k8s.io/{version}":
        got = f"{review.get('apiVersion')}, Kind={review.get('kind')}" if isinstance(review, dict) else "no object"
        raise WebhookCallError(
            f"received invalid webhook response: expected webhook response of admission.k8s.io/{version}, Kind=AdmissionReview, got {got}"
        )
    response = review.get("response")
    if not isinstance(response, dict):
        raise WebhookCallError("received invalid webhook response: webhook response was absent")
    if version == "v1" and response.get("uid") != uid:
        raise WebhookCallError(f'received invalid webhook response: expected response.uid="{uid}", got "{response.get("uid", "")}"')
    if wrong := _patch_fault(response, version, mutating=mutating):
        raise WebhookCallError(f"received invalid webhook response: {wrong}")
    return response


def _patch_fault(response: JSON, version: str, *, mutating: bool) -> str:
    """What is wrong with the patch and its type, which come together or not at all."""
    patch, kind = response.get("patch"), response.get("patchType")
    if not mutating:
        given = "patch" if patch else "patchType" if kind is not None and version == "v1" else ""
        return given and f"validating webhook may not return response.{given}"
    try:
        base64.b64decode(patch or "", validate=True)
    except (binascii.Error, TypeError, ValueError) as fault:
        return f"response.patch: {fault}"
    if version != "v1":
        return ""
    if bool(patch) is not (kind is not None):
        return (
            "webhook returned response.patch but not response.patchType"
            if patch
            else "webhook returned response.patchType but not response.patch"
        )
    return f'invalid response.patchType of "{kind}"' if patch and kind != "JSONPatch" else ""
