"""Promises that hold for every scene, also for those nobody thought of."""

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from status_builders import Scene

from api import keys, reasons
from api.status import Status, decode_status, encode_status
from controller.snapshot import Snapshot
from controller.status.acts import Act, acts_of
from controller.status.judge import assess, judge
from controller.status.replicas import Ready

UIDS = ("a", "b", "c", "d", "e", "f")
STATES = ("Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling", "Aborted", "Completed", "Else")


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A deployment in any condition that an API server could show."""
    found = Scene()
    names = draw(st.lists(st.sampled_from(["server", "pre", "dec"]), min_size=1, max_size=3, unique=True))
    for name in names:
        kind = draw(st.sampled_from(["Server", "Prefill", "Decode", "Encode"]))
        more = (
            {"command": ["x"]}
            if draw(st.booleans())
            else {"extraArgs": draw(st.sampled_from([[], ["-tp", "2"], ["-t=2"], ["--host", "x"]]))}
        )
        if draw(st.integers(0, 9)) == 0:
            more["elasticEp"] = {"width": 3}
        found.role(name, draw(st.integers(0, 3)), draw(st.integers(1, 3)), kind, **more)
    for uid in draw(st.lists(st.sampled_from(UIDS), max_size=6, unique=True)):
        add_pod(draw, found, uid, [*names, "gone"])
    for pod in list(found.pods):
        if draw(st.booleans()):
            statuses = {kind: draw(st.sampled_from(["True", "False", "Unknown"])) for kind in ("QuotaReserved", "Admitted", "Preempted")}
            found.workload(pod.uid, active=draw(st.booleans()), checks=draw(st.sampled_from(["", "parked rather than held"])), **statuses)
    if draw(st.booleans()):
        found.router(ready=draw(st.sampled_from([None, 0, 1])))
        for _ in range(draw(st.integers(0, 2))):
            rows = draw(st.lists(st.sampled_from([*UIDS, "!a", "!b", "stranger"]), max_size=3))
            found.view(*rows, age=draw(st.sampled_from([1, 15, 16])), error=draw(st.sampled_from(["", "", "refused"])))
    for _ in range(draw(st.integers(0, 2))):
        found.forward(draw(st.sampled_from(["Bound", "Failed", "Unanswered", "Unsupported"])), draw(st.sampled_from(UIDS)))
        found.drained(draw(st.sampled_from(UIDS)), *draw(st.lists(st.sampled_from(["Idle", "Busy", "Error", "Refused"]), max_size=3)))
    if draw(st.booleans()):
        found.cache(draw(st.sampled_from([None, "Ready", "Error"])), granted=draw(st.booleans()))
    if draw(st.booleans()):
        found.artifact(draw(st.sampled_from(["", "huggingFace", "persistentVolumeClaim"])), draw(st.sampled_from(["True", "False"])))
    if draw(st.booleans()):
        targets = draw(st.lists(st.sampled_from(UIDS), min_size=1, max_size=2, unique=True))
        clocks = {"started": draw(st.sampled_from([5, 31, 301])), "phase": draw(st.sampled_from([5, 31, 241]))}
        found.retiring(draw(st.sampled_from(STATES)), *targets, role=names[0], ordinal=draw(st.integers(0, 2)), **clocks)
        found.annotated(keys.RETIREMENT_RETRY, draw(st.sampled_from(["", f"{names[0]}:1:t", "x", "::"])))
    if draw(st.booleans()):
        found.grouped(draw(st.sampled_from(["Eligible", "NotReady"])), draw(st.sampled_from(UIDS)), role=names[0])
    if draw(st.integers(0, 9)) == 0:
        found.deleting()
    return found.acting()


def add_pod(draw: st.DrawFn, found: Scene, uid: str, names: list[str]) -> None:
    """A Pod in any state."""
    pod = found.pod(uid, draw(st.sampled_from(names)), draw(st.sampled_from([0, 0, 1, 2, None, "x"])))
    if draw(st.booleans()):
        pod.seat(draw(st.sampled_from([0, 1, 2, "x"])), draw(st.sampled_from([1, 2, 3, "x"])))
    for change in draw(
        st.lists(
            st.sampled_from(["unready", "unreported", "departing", "taken_over", "eligible_label", "publishing"]), max_size=2, unique=True
        )
    ):
        if change != "unreported" or "Ready" in pod.conditions:
            getattr(pod, change)()
    if draw(st.booleans()):
        pod.hash(draw(st.sampled_from([None, "0123456789abcdef"])))
    if draw(st.integers(0, 5)) == 0:
        pod.phase(draw(st.sampled_from(["Pending", "Failed", "Succeeded"])), reason="Evicted", message="m")


PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def fields(status: Status, *left_out: str) -> Status:
    """The status without some fields."""
    return msgspec.structs.replace(status, **{name: getattr(Status(), name) for name in left_out})


@PROFILE
@given(scenes())
def test_a_status_is_whole_bounded_and_of_the_vocabulary(found: Scene) -> None:
    """Every condition, known reasons, bounded messages, numbers only where they are known."""
    snapshot = found.snapshot()
    assessment = assess(snapshot)
    status = assessment.status
    elastic = any(role.elastic_ep for role in snapshot.deployment.spec.roles)
    assert [c.type for c in status.conditions] == [t for t in reasons.TYPES if elastic or t != reasons.ELASTIC_RESIZE]
    for condition in status.conditions:
        assert reasons.row(condition.type, condition.reason).status == condition.status
        assert len(condition.message.encode()) <= 1024
    for role in status.roles:
        replicas = assessment.ground.fleet.role(role.name)
        assert role.ready == sum(all(m.ready is Ready.TRUE for m in r.members) and r.shape == "Complete" for r in replicas)
        assert role.endpoints is not None
        assert role.endpoints.eligible is None or role.endpoints.eligible <= role.ready
        assert (role.endpoints.serving.value is not None) == (role.endpoints.serving.state == "Confirmed")
        ordinals = [group.ordinal for group in role.groups]
        assert ordinals == sorted(set(ordinals))
        for group in role.groups:
            assert group.state != "Eligible" or (group.qualified_at and all(m.ready == "True" for m in group.members))
    assert not [p for p in snapshot.pods if p.metadata.deleting and p.metadata.uid in ready_uids(status)]
    assert decode_status(encode_status(status)) == status


def ready_uids(status: Status) -> set[str]:
    """UIDs of the members that the groups show ready."""
    return {m.uid for role in status.roles for group in role.groups for m in group.members if m.ready == "True"}


@PROFILE
@given(scenes())
def test_order_means_nothing_and_a_second_pass_is_quiet(found: Scene) -> None:
    """Lists in another order give the same bytes, and a status judged over itself stays as it is, the operation's step aside."""
    snapshot = found.snapshot()
    status = judge(snapshot)
    turned = msgspec.structs.replace(
        snapshot, pods=snapshot.pods[::-1], workloads=snapshot.workloads[::-1], router_pods=snapshot.router_pods[::-1]
    )
    assert encode_status(judge(turned)) == encode_status(status)
    if status.retirement is None and (snapshot.previous is None or snapshot.previous.retirement is None):
        again = judge(msgspec.structs.replace(snapshot, previous=status))
        settled = ("retirement", "conditions", "roles")
        assert encode_status(fields(again, *settled)) == encode_status(fields(status, *settled))
        assert encode_status(judge(msgspec.structs.replace(snapshot, previous=again))) == encode_status(again)


@PROFILE
@given(scenes())
def test_an_operation_keeps_its_targets_and_takes_one_step(found: Scene) -> None:
    """Target identity is the UID set; from Deleting on nothing is aborted; deletes name stored targets only."""
    snapshot = found.snapshot()
    stored = snapshot.previous.retirement if snapshot.previous else None
    assessment = assess(snapshot)
    operation = assessment.status.retirement
    order = ("Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling")
    if (
        stored
        and operation
        and operation.target_member_uids == stored.target_member_uids
        and operation.state in order
        and stored.state in order
    ):
        assert order.index(operation.state) - order.index(stored.state) in {0, 1}
        assert operation.started_at == stored.started_at
    if stored and stored.state in order and operation is not None:
        assert operation.target_member_uids == stored.target_member_uids
        assert (operation.state == "Aborted") <= (stored.state in order[:4])
    deleted = {act.uid for act in acts(snapshot) if act.kind == "deletePod"}
    assert deleted <= (set(stored.target_member_uids) if stored and stored.state in {"Deleting", "Settling"} else set())


def acts(snapshot: Snapshot) -> tuple[Act, ...]:
    """What the pass asks of an actor."""
    return acts_of(assess(snapshot))
