"""A judgement is remembered by what it was made from, and by nothing less."""

from typing import Any

import pytest
from reviewing import deployment, instance_type, review, role

from webhooks import judgements, wire
from webhooks.lookups import Lookup, ObjectLookup
from webhooks.server import ReviewServer
from webhooks.settings import AdmissionSettings
from webhooks.validation import registry

PLAIN = deployment(role().cards(4).args("--tensor-parallel-size", "4"))
WIDE = deployment(role().cards(4).args("--tensor-parallel-size", "8"))
PADDED = deployment(role().cards(4).args("--tensor-parallel-size", "4").env(PADDING="x" * wire.REMEMBERED_BYTES))


class Shelf:
    """A look-up whose objects change between reviews."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = [instance_type()]

    async def get(self, kind: Any, namespace: str | None, name: str) -> Any:
        return await ObjectLookup(self.objects).get(kind, namespace, name)

    async def scalers(self, namespace: str) -> Any:
        return ()


def server(lookup: Lookup | None = None, settings: AdmissionSettings | None = None) -> ReviewServer:
    return ReviewServer(lookup or ObjectLookup([instance_type()]), settings or AdmissionSettings())


SAME = {
    "a write that passes": (PLAIN, None, set()),
    "a write that is refused": (WIDE, None, {"MD303"}),
    "an update that passes": (PLAIN.scaled(3), PLAIN, set()),
    "an update that is refused": (WIDE, PLAIN, {"MD303"}),
    "a large one that passes": (PADDED, None, set()),
}


@pytest.mark.parametrize("sentence", SAME)
async def test_the_same_write_again_gets_the_same_answer(sentence):
    """Three times, by one server: the first is judged, the others are remembered."""
    new, old, rules = SAME[sentence]
    asked = server()
    answers = [(await review(new, old, server=asked)).review for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert (await review(new, old, server=asked)).rules == rules


@pytest.mark.parametrize("new", [PLAIN, PADDED], ids=["small", "large"])
async def test_what_is_remembered_does_not_outlive_the_objects_that_were_read(new):
    """A type that goes, shrinks and comes back is seen each time."""
    shelf = Shelf()
    asked = server(shelf)
    assert (await review(new, server=asked)).allowed
    shelf.objects = []
    assert (await review(new, server=asked)).rules == {"MD711"}
    shelf.objects = [instance_type(cards=2)]
    assert (await review(new, server=asked)).rules == {"MD715"}
    shelf.objects = [instance_type()]
    assert (await review(new, server=asked)).allowed


async def test_a_cache_is_looked_up_each_time():
    """Binding and pool decide anew for every review, whatever is remembered of the write."""
    shelf = Shelf()
    asked = server(shelf)
    new = deployment(role("p", "Prefill").cards(1, interface="1"), role("d", "Decode").cards(1)).cache()
    binding = {"kind": "KVCachePoolBinding", "metadata": {"name": "pool", "namespace": "team-a"}, "spec": {"poolRef": {"name": "shared"}}}

    def pool(protocol: str) -> dict[str, Any]:
        return {"kind": "KVCachePool", "metadata": {"name": "shared"}, "spec": {"memberGroups": [{"name": "g", "protocol": protocol}]}}

    told = []
    for objects in ([binding, pool("EFA")], [binding, pool("TCP")], [], [binding, pool("EFA")]):
        shelf.objects = [instance_type(), *objects]
        told.append((await review(new, server=asked)).rules)
    assert told == [set(), {"MD722"}, {"MD721"}, set()]


async def test_types_that_differ_in_anything_are_judged_anew():
    """Equal types get the answer of the last time; one that is observed, or offers less, does not."""
    shelf = Shelf()
    asked = server(shelf)
    half = deployment(role().cards(1, acceleratorSlicedMemoryPercentage=50))
    unobserved = instance_type() | {"status": {"accelerator": {"capacity": "8"}}}
    seen = []
    for kind in (unobserved, instance_type(), instance_type(), unobserved):
        shelf.objects = [kind]
        answer = await review(half, server=asked)
        seen.append((answer.http, bool(answer.rules)))
    assert seen == [(500, False), (200, True), (200, True), (500, False)]


async def test_a_new_write_is_judged_by_its_own_old_object():
    """The same new object is fine as an update of itself, and frozen beside another one."""
    asked = server()
    other = PLAIN.model("another/model")
    assert (await review(PLAIN, PLAIN, server=asked)).allowed
    assert (await review(PLAIN, other, server=asked)).rules == {"MD801"}
    assert (await review(PLAIN, server=asked)).allowed


async def test_a_name_is_part_of_what_is_judged():
    """One spec under two names: only the longer one makes a Service name too long."""
    asked = server()
    assert (await review(PLAIN.named("a"), server=asked)).allowed
    assert (await review(PLAIN.named("a" * 63), server=asked)).rules == {"MD111"}
    assert (await review(PLAIN.named("a"), server=asked)).allowed


async def test_settings_are_those_of_the_server():
    """Two servers of two minds do not share what they remember."""
    new = deployment(role(privileged=True))
    strict, lax = server(), server(settings=AdmissionSettings(instance_privileged_allowed=True))
    for _ in range(2):
        assert (await review(new, server=strict)).rules == {"MD604"}
        assert (await review(new, server=lax)).allowed


async def test_a_crash_is_not_remembered(monkeypatch):
    """What a rule could not judge once is judged anew."""
    asked = server()
    sound: Any = registry.judge

    def broken(*_: Any) -> None:
        raise RuntimeError("a rule is broken")

    monkeypatch.setattr(registry, "judge", broken)
    assert (await review(PLAIN, server=asked)).http == 500
    monkeypatch.setattr(registry, "judge", sound)
    assert (await review(PLAIN, server=asked)).allowed


async def test_the_rules_are_walked_once_for_the_same_write(monkeypatch):
    """That is what remembering is for, for types that are equal too; a large spec on either side is walked each time, and kept nowhere."""
    walked: list[str] = []
    sound: Any = registry.judge

    def counted(subject: Any, phases: Any) -> Any:
        walked.extend(f"{subject.name} {phase}" for phase in phases if phase in {"object", "types"})
        return sound(subject, phases)

    monkeypatch.setattr(judgements.registry, "judge", counted)
    asked = server()
    for _ in range(3):
        assert (await review(PLAIN.named("small"), server=asked)).allowed
        assert (await review(PADDED.named("large"), server=asked)).allowed
        assert (await review(PLAIN.named("scaled").scaled(3), PLAIN.named("scaled"), server=asked)).allowed
        assert (await review(PLAIN.named("smaller"), PADDED.named("smaller"), server=asked)).allowed
    counts = {each: walked.count(each) for each in walked}
    expected = {"small": 1, "scaled": 1, "large": 3, "smaller": 3}
    assert counts == {f"{name} {phase}": times for name, times in expected.items() for phase in ("object", "types")}
