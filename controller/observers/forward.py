"""GroupForward: does a member's forward path carry a request? One token is asked for, under an id that the answer has to give back.

Only engines and versions of which the binding is proved are asked, and only roles of kind Server. No answer, or one that does not give the
id back, is Unanswered, never Failed: a busy engine looks like that. A refusal of the request itself is no failure of the path either.

Source: status facts 6.1.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from api import keys
from api.objects import Pod, condition
from controller.observers.engine import endpoint_of
from controller.observers.net import MIB, Dialer, ObservationError
from controller.snapshot import Forward

REPLICA_SECONDS: Final = 15.0
PROMPT: Final = "ping"


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    id: str = ""
    choices: list[_Choice] = []


class _MetaInfo(msgspec.Struct):
    id: str = ""
    finish_reason: Any = None


class _Generated(msgspec.Struct):
    meta_info: _MetaInfo = msgspec.field(default_factory=_MetaInfo)


def request_id(pod_uid: str) -> str:
    """The id that ties an answer to the Pod it was asked of."""
    return f"gpustack-qualify-{pod_uid}"


def groups_to_ask(pods: Iterable[Pod], roles: AbstractSet[str]) -> Iterator[Pod]:
    """The members of those roles' replicas that only the forward path can still disqualify: of several Pods, all there, all ready.

    A replica that already fails another criterion is not asked: the request would be served for nothing.
    """
    replicas: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        labels = pod.metadata.labels
        if labels.get(keys.COMPONENT) in roles and keys.POD_ORDINAL in labels and not pod.metadata.deleting:
            replicas[labels[keys.COMPONENT], labels[keys.POD_ORDINAL]].append(pod)
    for members in replicas.values():
        totals = {pod.metadata.annotations.get(keys.POD_GROUP_TOTAL_COUNT, "1") for pod in members}
        if len(members) > 1 and totals == {str(len(members))} and all(_ready(pod) for pod in members):
            yield from members


def _ready(pod: Pod) -> bool:
    reported = condition(pod.status.conditions, "Ready")
    return pod.status.phase == "Running" and reported is not None and reported.status == "True"


async def forward(dialer: Dialer, engine: str, model: str, pod: Pod, seconds: float) -> Forward:
    """Ask one member once."""
    wanted = request_id(pod.metadata.uid)
    try:
        where = endpoint_of(pod)
        if engine == "vLLM":
            body: dict[str, Any] = {"model": model, "prompt": PROMPT, "max_tokens": 1, "temperature": 0, "request_id": wanted}
            path, headers = "/v1/completions", {"X-Request-Id": wanted}
        elif engine == "SGLang":
            body = {"text": PROMPT, "rid": wanted, "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
            path, headers = "/generate", {}
        else:
            return Forward(pod_uid=pod.metadata.uid, outcome="Unsupported")
        answer = await dialer.post(where.host, where.port, path, body, scheme=where.scheme, seconds=seconds, cap=MIB, headers=headers)
        bound = _bound(engine, answer, wanted)
    except ObservationError:
        return Forward(pod_uid=pod.metadata.uid, outcome="Unanswered")
    return Forward(pod_uid=pod.metadata.uid, outcome="Bound" if bound else "Unanswered")


def _bound(engine: str, answer: bytes, wanted: str) -> bool:
    try:
        if engine == "vLLM":
            completion = msgspec.json.decode(answer, type=_Completion)
            finished = any(choice.finish_reason for choice in completion.choices)
            return completion.id == f"cmpl-{wanted}" and finished
        generated = msgspec.json.decode(answer, type=_Generated).meta_info
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise ObservationError("the answer cannot be read") from fault
    return generated.id == wanted and generated.finish_reason is not None
