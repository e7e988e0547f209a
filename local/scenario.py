"""Scenario files: at t = ..., somebody does something to the cluster.

    name: prefill-decode
    description: one line
    namespace: demo
    steps:
      - at: 0                        # seconds from the start
        say: the deployment is applied
        apply: [objects]             # server-side, a status in an object is written to its status subresource
      - at: 2
        converge: {deployment: chat}
      - at: 3
        patch: {apiVersion: ..., kind: ..., name: ..., merge: {...}}
        refused: true                # the API server must refuse it; its words become part of the story

A step does one thing. Besides `apply`, `patch`, `status` and `delete`, which take any object, there are the parts that nobody else plays on
a laptop: `converge` (the operator), `quota` (Kueue), `ready`, `lose` and `evict` (a kubelet), `router` (the router's Deployment), `bind`,
`decide` and `release` (a scaler), `scale` (a person). `as` names the user who writes.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from api.clock import Clock
from api.documents import DocumentError, documents
from local.acting import Become, Cast, code_of
from local.places import KNOWN, Client, Place, ScenarioError
from local.wire import JSON, encode

MANAGER = "scenario"
ACTS = ("apply", "patch", "status", "delete", "converge", "quota", "ready", "lose", "evict", "router", "bind", "decide", "release", "scale")
_SAID = ("reason", "message", "flavor")  # what Kueue may say
_KEYS = {"at", "say", "as", "refused", *ACTS}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the story. `told` is what the API server said to a write that it was meant to refuse."""

    at: float
    say: str
    act: str = ""
    what: Any = None
    user: str = ""
    refused: bool = False
    told: str = ""

    def __str__(self) -> str:
        text = f"t={self.at:g}s {self.say}"
        return f"{text}\n       refused: {self.told}" if self.told else text


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story and where it plays."""

    name: str
    description: str
    namespace: str
    steps: tuple[Step, ...]


OnStep = Callable[[Step], Awaitable[None] | None]


def load(source: str | Path) -> Scenario:
    """A scenario by the name of one that comes with the package, or by its file. Raises ScenarioError, a ValueError, for what is none."""
    packaged = files("local").joinpath("scenarios", f"{source}.yaml")
    text = packaged.read_bytes() if isinstance(source, str) and "/" not in source and packaged.is_file() else Path(source).read_bytes()
    try:
        document = next(iter(documents(text.decode())), None)
    except UnicodeDecodeError as fault:
        raise ScenarioError(f"{source}: byte {fault.start} is no UTF-8") from fault
    except DocumentError as fault:
        raise ScenarioError(f"{source}: {fault}") from fault
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        raise ScenarioError(f"{source}: a scenario has a list of steps")
    steps = tuple(_step(entry, f"{source}: step {index + 1}") for index, entry in enumerate(document["steps"]))
    if list(steps) != sorted(steps, key=lambda step: step.at):
        raise ScenarioError(f"{source}: the steps are not in the order of their times")
    return Scenario(
        str(document.get("name") or Path(source).stem),
        str(document.get("description", "")),
        str(document.get("namespace", "default")),
        steps,
    )


def _step(entry: Any, where: str) -> Step:
    at = entry.get("at") if isinstance(entry, dict) else None
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < math.inf:
        raise ScenarioError(f"{where}: a step has a time, `at`: seconds from the start, not before it")
    strange = entry.keys() - _KEYS
    if strange:
        raise ScenarioError(f"{where}: unknown {', '.join(sorted(strange))}; a step knows {', '.join(sorted(_KEYS))}")
    acts = [key for key in ACTS if key in entry]
    if len(acts) != 1:
        raise ScenarioError(f"{where}: a step does exactly one of {', '.join(ACTS)}")
    what = entry[acts[0]]
    if not isinstance(what, list if acts[0] == "apply" else dict):
        raise ScenarioError(f"{where}: {acts[0]} takes {'a list of objects' if acts[0] == 'apply' else 'a mapping'}")
    for fault in _faults(acts[0], what):
        raise ScenarioError(f"{where}: {acts[0]}: {fault}")
    return Step(float(at), str(entry.get("say") or acts[0]), acts[0], what, str(entry.get("as", "")), bool(entry.get("refused")))


def _faults(act: str, what: Any) -> Iterator[str]:
    """What an act would stumble over when its time comes."""
    if act == "apply":
        for index, obj in enumerate(what):
            if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict) or not obj["metadata"].get("name"):
                yield f"entry {index + 1} is no object with a name"
            elif not _known(obj):
                yield f"entry {index + 1}: a scenario does not know {obj.get('apiVersion')} {obj.get('kind')}"
        return
    if act in {"patch", "status", "delete"}:
        bodies = {"patch": ("merge", "json"), "status": ("merge",), "delete": ()}[act]
        if not _known(what):
            yield f"a scenario does not know {what.get('apiVersion', 'v1')} {what.get('kind')}"
        if not what.get("name"):
            yield "the object's name is missing"
        if bodies and not any(key in what for key in bodies):
            yield f"{' or '.join(bodies)} is missing"
        return
    words = _words(act)
    if strange := sorted(what.keys() - words.keys()):
        yield f"unknown {', '.join(strange)}; it takes {', '.join(words)}"
    if missing := [word for word, needed in words.items() if needed and word not in what]:
        yield f"{', '.join(missing)} is missing"


def _words(act: str) -> dict[str, bool]:
    """What a part of the cast takes, and whether it has to be given."""
    words = {"deployment": True}
    for name, parameter in list(inspect.signature(getattr(Cast, act)).parameters.items())[2:]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            words |= dict.fromkeys(_SAID, False)
        else:
            words[name] = parameter.default is inspect.Parameter.empty
    return words


async def play(scenario: Scenario, client: Client, clock: Clock, on_step: OnStep | None = None, *, become: Become | None = None) -> None:
    """Play it to its end on the clock's time; `become` makes another user's client, for steps that name one.

    A step is told before it is done, a write that is to be refused afterwards, with the words of the refusal.

    Raises the client's errors, and ScenarioError where a write that must be refused is not, or a step cannot be done as it is written.
    """
    cast = Cast(client, clock, scenario.namespace, become)
    start = clock.monotonic()
    for step in scenario.steps:
        left = start + step.at - clock.monotonic()
        if left > 0:
            await clock.sleep(left)
        if not step.refused:
            await _tell(on_step, step)
        told = await _perform(cast, step)
        if step.refused:
            await _tell(on_step, replace(step, told=told))


async def _tell(on_step: OnStep | None, step: Step) -> None:
    outcome = on_step(step) if on_step is not None else None
    if inspect.isawaitable(outcome):
        await outcome


async def _perform(cast: Cast, step: Step) -> str:
    """Do the step; the API server's words where it was to be refused."""
    try:
        actors = await cast.as_user(step.user) if step.user else cast
        await _act(actors, step.act, step.what)
    except (AttributeError, KeyError, TypeError) as fault:
        raise ScenarioError(f"t={step.at:g}s: {step.say}: {step.act} cannot be done as it is written: {fault!r}") from fault
    except Exception as fault:
        if step.refused and 400 <= code_of(fault) < 500:
            return str(getattr(fault, "message", fault))
        raise
    if step.refused:
        raise ScenarioError(f"t={step.at:g}s: {step.say}: the API server did not refuse it")
    return ""


async def _act(cast: Cast, act: str, what: Any) -> None:
    match act:
        case "apply":
            for obj in what:
                await apply(cast, obj)
        case "patch":
            place = _place(what)
            kind = "json" if "json" in what else "merge"
            await cast.client.patch(place, what["name"], encode(what[kind]), _namespace(cast, place), kind=kind)
        case "status":
            await cast.status(_place(what), what["name"], what["merge"])
        case "delete":
            place = _place(what)
            await cast.client.delete(place, what["name"], _namespace(cast, place))
        case _:
            part = {key: value for key, value in what.items() if key != "deployment"}
            await getattr(cast, act)(what["deployment"], **part)


def _known(what: JSON) -> Place | None:
    return KNOWN.get((str(what.get("apiVersion", "v1")), str(what.get("kind", ""))))


def _place(what: JSON) -> Place:
    found = _known(what)
    if found is None:
        raise ScenarioError(f"a scenario does not know {what.get('apiVersion')} {what.get('kind')}")
    return found


def _namespace(cast: Cast, place: Place) -> str | None:
    return cast.namespace if place.namespaced else None


async def apply(cast: Cast, obj: JSON) -> None:
    """Server-side apply, then the status where the object states one."""
    place = _place(obj)
    plain = {key: value for key, value in obj.items() if key != "status"}
    client: Any = cast.client
    name, namespace = obj["metadata"]["name"], _namespace(cast, place)
    await client.patch(place, name, encode(plain), namespace, kind="apply", field_manager=MANAGER, force=True)
    if "status" in obj:
        await cast.status(place, name, obj["status"])
