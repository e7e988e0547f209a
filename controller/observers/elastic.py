"""What the elastic world's own record says: a ConfigMap that whoever resizes the world keeps, one a deployment.

Layers are `{known, value, reason}`, in either spelling of Go's encoder. A record that is not there is a fact (`record: false`); one that
cannot be read or understood is none, and leaves the condition as it stands.

Source: status facts 2.7, 4.9 and 8.
"""

from typing import Any, Final

import msgspec

from controller.observers.net import ObservationError
from controller.snapshot import ElasticObservation, ScaleRefusal
from controller.store import Key
from kube.client import Client
from kube.errors import Forbidden, KubeError, NotFound
from kube.resources import Resource

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
DOCUMENT: Final = "observation.json"


class NotAllowedError(ObservationError):
    """The permission is missing. Asking again soon would only cost requests."""


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class _Layer(msgspec.Struct):
    known: bool = False
    value: int | None = None
    reason: str = ""


class _Record(msgspec.Struct):
    desired: _Layer = msgspec.field(default_factory=_Layer)
    effective: _Layer = msgspec.field(default_factory=_Layer)
    refusal: ScaleRefusal | None = None


def record_name(uid: str) -> str:
    """The ConfigMap of the deployment of that UID."""
    return f"elastic-observation-{uid}"


async def elastic_observation(client: Client, key: Key, uid: str) -> ElasticObservation:
    """The record, read past the cache. Raises ObservationError where nothing can be told, NotAllowedError without the right to."""
    try:
        data = await client.get(CONFIG_MAPS, record_name(uid), key.namespace)
    except NotFound:
        return ElasticObservation(record=False)
    except Forbidden as error:
        raise NotAllowedError("the elastic record may not be read") from error
    except KubeError as error:
        raise ObservationError(f"the elastic record cannot be read: {error}") from error
    try:
        text = msgspec.json.decode(data, type=_ConfigMap).data[DOCUMENT]
        record = msgspec.convert(_lower(msgspec.json.decode(text)), _Record)
    except (msgspec.MsgspecError, KeyError, RecursionError) as fault:
        raise ObservationError(f"the elastic record cannot be understood: {fault}") from fault
    return ElasticObservation(
        desired=record.desired.value if record.desired.known else None,
        observed=record.effective.value if record.effective.known else None,
        known=record.effective.known,
        refusal=record.refusal,
        proof=record.effective.reason if not record.effective.known else "",
        record=True,
    )


def _lower(value: Any) -> Any:
    """Member names with a small first letter, as a struct with tags would have them."""
    if isinstance(value, dict):
        return {name[:1].lower() + name[1:]: _lower(inner) for name, inner in value.items()}
    return value
