"""Kinds that are asked and not stored: who am I, may I, and tokens of service accounts."""

from datetime import timedelta
from typing import Any

from api.clock import Clock, format_time
from local import statuses
from local.callers import Caller, Doors, known
from local.discovery import REVIEWS
from local.kinds import SERVICE_ACCOUNTS
from local.statuses import Cause, InvalidError
from local.store import Store
from local.wire import JSON

SHORTEST = 600
NOT_ENFORCED = "the embedded cluster stores RBAC and does not enforce it"


def answer(doors: Doors, caller: Caller, path: str, body: Any) -> JSON | None:
    """The answered review, or None when the path names none."""
    parts = [part for part in path.split("/") if part]
    if len(parts) != 4 or parts[0] != "apis" or parts[2] != "v1":
        return None
    kind = next((kind for group, plural, kind in REVIEWS if (group, plural) == (parts[1], parts[3])), None)
    if kind is None:
        return None
    spec = (body.get("spec") or {}) if isinstance(body, dict) else {}
    out: JSON = {"kind": kind, "apiVersion": f"{parts[1]}/v1", "metadata": {}}
    if kind == "SelfSubjectReview":
        return out | {"status": {"userInfo": caller.to_json()}}
    if kind == "TokenReview":
        found = doors.caller_of(str(spec.get("token", "")))
        status: JSON = {"authenticated": found is not None}
        if found is not None:
            status["user"] = found.to_json()
        return out | {"spec": spec, "status": status}
    return out | {"spec": spec, "status": {"allowed": True, "reason": NOT_ENFORCED}}


def token_request(store: Store, doors: Doors, clock: Clock, *, namespace: str, name: str, body: Any) -> JSON:
    """A token of a service account. Raises 400, 404, 422."""
    entry = store.get(SERVICE_ACCOUNTS.table, (namespace, name))
    if entry is None:
        raise statuses.not_found("serviceaccounts", "", name)
    spec = (body.get("spec") or {}) if isinstance(body, dict) else {}
    seconds = spec.get("expirationSeconds") or 3600
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise statuses.bad_request("spec.expirationSeconds: expected an integer")
    if seconds < SHORTEST:
        text = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
        causes = [Cause("spec.expirationSeconds", "FieldValueInvalid", text)]
        raise InvalidError("TokenRequest", "authentication.k8s.io", "", causes)
    expires = clock.now() + timedelta(seconds=seconds)
    token = doors.issue(known(f"system:serviceaccount:{namespace}:{name}", (), entry.uid), expires)
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"expirationSeconds": seconds, "audiences": spec.get("audiences") or ["https://kubernetes.default.svc"]},
        "status": {"token": token, "expirationTimestamp": format_time(expires)},
    }
