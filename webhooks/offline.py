"""A review answered without a cluster: look-ups find the objects that were handed over.

A ModelDeployment is defaulted first and judged then, as an API server would do it in two calls. Source: decisions D8, the cases' README.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhooks.lookups import Lookup, ObjectLookup
from webhooks.patch import Operation, apply_patch
from webhooks.server import MUTATE_DEPLOYMENT, MUTATE_POD, VALIDATE_DEPLOYMENT, VALIDATE_SCALER, ReviewServer
from webhooks.settings import AdmissionSettings

_operations = msgspec.json.Decoder(list[Operation])


async def answer(review: Mapping[str, Any], objects: Sequence[Mapping[str, Any]], settings: AdmissionSettings) -> dict[str, Any]:
    """The response of the review, with `patchedObject` where it mutates. Raises ValueError for a review of a kind nobody here judges."""
    return await answer_with(review, ObjectLookup(objects), settings)


async def answer_with(review: Mapping[str, Any], lookup: Lookup, settings: AdmissionSettings) -> dict[str, Any]:
    """The same with any look-up."""
    request = review.get("request")
    kind = request.get("resource") if isinstance(request, dict) else None
    resource = kind.get("resource") if isinstance(kind, dict) else None  # what is no object at all, the server says in its own words
    server = ReviewServer(lookup, settings)
    if resource == "pods":
        return await _mutated(server, MUTATE_POD, review)
    if resource == "modeldeploymentscalers":
        return await _call(server, VALIDATE_SCALER, review)
    if resource not in (None, "modeldeployments"):
        raise ValueError(f"no webhook judges {resource}")
    first = await _mutated(server, MUTATE_DEPLOYMENT, review)
    if not first.get("allowed"):
        return first
    patched = first.get("patchedObject")
    if patched is not None and isinstance(request, dict):
        review = {**review, "request": {**request, "object": patched}}
    response = await _call(server, VALIDATE_DEPLOYMENT, review)
    return {**response, "patchedObject": patched} if patched is not None and response.get("allowed") else response


async def _call(server: ReviewServer, path: str, review: Mapping[str, Any]) -> dict[str, Any]:
    _, body = await server.review(path, msgspec.json.encode(review))
    response: dict[str, Any] = msgspec.json.decode(body)["response"]
    return response


async def _mutated(server: ReviewServer, path: str, review: Mapping[str, Any]) -> dict[str, Any]:
    response = await _call(server, path, review)
    if "patch" in response:
        operations = _operations.decode(base64.b64decode(response["patch"]))
        response["patchedObject"] = apply_patch(review["request"]["object"], operations)
    return response
