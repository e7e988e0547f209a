"""roles[].groups[]: state, reason, the instant of qualification and retention."""

from collections.abc import Callable

import pytest
from status_builders import PodBuilder, Scene, ago, read_pods, scene

from controller.status.groups import generation_of


def routed(*uids: str) -> Scene:
    """One-Pod replicas behind a router without a view."""
    return scene(replicas=len(uids)).replicas(*uids).router()


def paired(**more: object) -> Scene:
    """A replica of two Pods that pass every criterion."""
    return scene(size=2, **more).group("server", 0, "a", "b").forward("Bound", "a", "b")


STATES: dict[str, tuple[Callable[[], Scene], str, str]] = {
    "every criterion passes, no router": (paired, "Eligible", "Qualified"),
    "every criterion passes, the view agrees": (lambda: routed("a").view("a"), "Eligible", "Qualified"),
    "eligible although a confirmed view does not select it": (lambda: routed("a").view("!a"), "Eligible", "Qualified"),
    "no view": (lambda: routed("a"), "AwaitingObservation", "NoRouterView"),
    "a stale view": (lambda: routed("a").view("a", age=20), "AwaitingObservation", "RouterViewStale"),
    "views that disagree": (
        lambda: routed("a").router_pod("router-b").view("a").view("!a", router="router-b"),
        "AwaitingObservation",
        "RouterViewsDisagree",
    ),
    "a member is missing": (lambda: scene(size=2).tap(lambda s: s.pod("a").seat(0, 2)), "Incomplete", "MemberSetComplete"),
    "a member is not ready": (lambda: paired().tap(lambda s: s.pods[0].unready()), "NotReady", "MembersReady"),
    "a member fault beside a lost view": (lambda: routed("a").tap(lambda s: s.pods[0].unready()), "NotReady", "MembersReady"),
    "a path fails": (lambda: paired().forward("Failed", "b"), "Unverified", "GroupForward"),
    "a path was not asked": (lambda: scene(size=2).group("server", 0, "a", "b"), "Unknown", "GroupForward"),
    "an unreadable set": (lambda: paired().tap(lambda s: s.pods[0].total(3)), "Unknown", "MemberSetComplete"),
    "held by an operation": (lambda: paired().retiring("Draining", "a", "b", ordinal=0), "Retiring", "NoPlannedRetirement"),
    "being replaced": (lambda: paired().rollout(replacing=[{"role": "server", "ordinal": 0}]), "Replacing", "NoPendingReplacement"),
    "retiring comes before replacing": (
        lambda: paired().retiring("Aborted", "a", "b", ordinal=0).rollout(replacing=[{"role": "server", "ordinal": 0}]),
        "Retiring",
        "NoPlannedRetirement",
    ),
    "replacing comes before incomplete": (
        lambda: scene(size=2).tap(lambda s: s.pod("a").seat(0, 2)).rollout(replacing=[{"role": "server", "ordinal": 0}]),
        "Replacing",
        "NoPendingReplacement",
    ),
    "incomplete comes before not ready": (
        lambda: scene(size=2).tap(lambda s: s.pod("a").seat(0, 2).unready()),
        "Incomplete",
        "MemberSetComplete",
    ),
    "not ready comes before unverified": (
        lambda: paired().tap(lambda s: s.pods[0].unready()).forward("Failed", "b"),
        "NotReady",
        "MembersReady",
    ),
    "unverified comes before unknown": (
        lambda: paired().tap(lambda s: s.pods[0].unreported()).forward("Failed", "b"),
        "Unverified",
        "GroupForward",
    ),
}


@pytest.mark.parametrize("sentence", STATES)
def test_state(sentence: str) -> None:
    """First match of the precedence; the reason names one fact and never two."""
    build, state, reason = STATES[sentence]
    group = build().shown_group()
    assert (group.state, group.reason) == (state, reason)


RETENTION: dict[str, tuple[Callable[[], Scene], tuple[str, str]]] = {
    "a lost view": (lambda: routed("a").grouped("Eligible", "a"), ("Eligible", "Retained")),
    "views that disagree": (
        lambda: routed("a").router_pod("router-b").view("a").view("!a", router="router-b").grouped("Eligible", "a"),
        ("Eligible", "Retained"),
    ),
    "a criterion that cannot be evaluated": (
        lambda: scene(size=2).group("server", 0, "a", "b").grouped("Eligible", "a", "b"),
        ("Eligible", "Retained"),
    ),
    "it was not eligible before": (lambda: routed("a").grouped("NotReady", "a"), ("AwaitingObservation", "NoRouterView")),
    "another member set": (lambda: routed("a").grouped("Eligible", "a-before"), ("AwaitingObservation", "NoRouterView")),
    "another ordinal": (lambda: routed("a").grouped("Eligible", "a", ordinal=1), ("AwaitingObservation", "NoRouterView")),
    "a member that nobody reported on": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pods[1].unreported()).grouped("Eligible", "a", "b"),
        ("Unknown", "MembersReady"),
    ),
    "a member became unready": (
        lambda: routed("a").tap(lambda s: s.pods[0].unready()).grouped("Eligible", "a"),
        ("NotReady", "MembersReady"),
    ),
}


@pytest.mark.parametrize("sentence", RETENTION)
def test_retention(sentence: str) -> None:
    """An earlier qualification outlives an observation loss only while the membership is whole, unchanged and ready."""
    build, expected = RETENTION[sentence]
    group = build().shown_group()
    assert (group.state, group.reason) == expected


def fresh(*changes: Callable[[PodBuilder], object]) -> PodBuilder:
    """The member as an uncached read shows it."""
    builder = PodBuilder("server", 0, "a")
    for change in changes:
        change(builder)
    return builder


UNCACHED: dict[str, tuple[Callable[[], tuple[list[PodBuilder], bool]], str]] = {
    "unchanged and ready": (lambda: ([fresh()], True), "Eligible"),
    "gone on the API server": (lambda: ([], True), "AwaitingObservation"),
    "replaced on the API server": (lambda: ([PodBuilder("server", 0, "other")], True), "AwaitingObservation"),
    "joined by another": (lambda: ([fresh(), PodBuilder("server", 0, "b")], True), "AwaitingObservation"),
    "unready on the API server": (lambda: ([fresh(lambda p: p.unready())], True), "AwaitingObservation"),
    "unreported on the API server": (lambda: ([fresh(lambda p: p.unreported())], True), "AwaitingObservation"),
    "departing on the API server": (lambda: ([fresh(lambda p: p.departing())], True), "AwaitingObservation"),
    "the read failed": (lambda: ([fresh()], False), "AwaitingObservation"),
    "somebody else's Pod beside it": (lambda: ([fresh(), PodBuilder("server", 0, "x").owned_by("other")], True), "Eligible"),
}


@pytest.mark.parametrize("sentence", UNCACHED)
def test_retention_is_proved_by_an_uncached_read(sentence: str) -> None:
    """What the cache still lists proves nothing where a fresh read was made."""
    read, state = UNCACHED[sentence]
    builders, complete = read()
    found = routed("a").grouped("Eligible", "a")
    found.membership = read_pods(*builders, complete=complete)
    assert found.shown_group().state == state


INSTANTS: dict[str, tuple[Callable[[], Scene], str | None]] = {
    "the first qualification is now": (lambda: routed("a").view("a"), ago(0)),
    "never qualified": (lambda: routed("a"), None),
    "staying keeps it": (lambda: routed("a").view("a").grouped("Eligible", "a"), ago(400)),
    "retained keeps it": (lambda: routed("a").grouped("Eligible", "a"), ago(400)),
    "held in the same generation keeps it": (lambda: routed("a").grouped("NotReady", "a"), ago(400)),
    "becoming unready keeps it": (lambda: routed("a").tap(lambda s: s.pods[0].unready()).grouped("Eligible", "a"), ago(400)),
    "leaving and coming back is a new instant": (lambda: routed("a").view("a").grouped("NotReady", "a"), ago(0)),
    "a new generation starts with none": (lambda: routed("a").grouped("Eligible", "b"), None),
    "a new generation that qualifies at once": (lambda: routed("a").view("a").grouped("Eligible", "b"), ago(0)),
}


@pytest.mark.parametrize("sentence", INSTANTS)
def test_qualified_at(sentence: str) -> None:
    """The instant is that of the transition into Eligible within a generation."""
    build, instant = INSTANTS[sentence]
    assert build().shown_group().qualified_at == instant


def test_an_eligible_group_that_lost_its_instant_earns_one() -> None:
    """A stored group without the field is as if it came in now."""
    assert routed("a").view("a").grouped("Eligible", "a", qualified=None).shown_group().qualified_at == ago(0)


MESSAGES: dict[str, tuple[Callable[[], Scene], str]] = {
    "missing members are counted": (lambda: scene(size=3).tap(lambda s: s.pod("a").seat(0, 3)), "1 of 3 members exists."),
    "unready members are named": (lambda: paired().tap(lambda s: [p.unready() for p in s.pods]), "Not ready: qwen-a, qwen-b."),
    "a failed path": (lambda: paired().forward("Failed", "b"), "forward path"),
    "a retirement": (lambda: paired().retiring("Draining", "a", "b", ordinal=0), "retirement"),
    "a replacement": (lambda: paired().rollout(replacing=[{"role": "server", "ordinal": 0}]), "rollout"),
    "what cannot be evaluated": (lambda: scene(size=2).group("server", 0, "a", "b"), "GroupForward could not be evaluated."),
    "a stale view": (lambda: routed("a").view("a", age=20), "stale"),
    "what keeps a retained group": (
        lambda: scene(size=2).group("server", 0, "a", "b").grouped("Eligible", "a", "b"),
        "GroupForward cannot be evaluated now",
    ),
    "a lost observation": (lambda: routed("a").grouped("Eligible", "a"), "observation is lost"),
}


@pytest.mark.parametrize("sentence", MESSAGES)
def test_message(sentence: str) -> None:
    """For people: the same fact as the reason, with its particulars."""
    build, text = MESSAGES[sentence]
    assert text in build().shown_group().message


def test_generation_is_over_the_sorted_uids() -> None:
    """The same set is the same generation, another set another."""
    assert generation_of(["b", "a"]) == generation_of(["a", "b"]) != generation_of(["a", "c"])
    assert len(generation_of(["a"])) == 16


def test_members_stand_by_seat() -> None:
    """Name, UID, seat and what was reported, nobody's report being Unknown."""
    found = scene(size=3)
    found.pod("c").seat(2, 3).unreported()
    found.pod("a").seat(0, 3)
    found.pod("b").seat(1, 3).unready()
    members = [(m.uid, m.seat, m.ready) for m in found.shown_group().members]
    assert members == [("a", 0, "True"), ("b", 1, "False"), ("c", 2, "Unknown")]


def test_at_most_sixty_four_lowest_ordinals_first() -> None:
    """The list is bounded; counts are not."""
    shown = scene(replicas=70).replicas(*(f"p{i:02}" for i in range(70))).shown()
    assert [group.ordinal for group in shown.groups] == list(range(64))
    assert shown.ready == 70


def test_the_collective_is_one_group_of_all_workers() -> None:
    """Workers by admission ordinal, without the head and without departing ones; never eligible, never an instant."""
    found = scene(elasticEp={"width": 4}).replicas("m", "w1", "w2", "w3")
    found.pods[2].departing()
    found.pod("head", "qwen-elastic-head").taken_over()
    (group,) = found.shown().groups
    assert [(m.uid, m.seat) for m in group.members] == [("m", 0), ("w1", 1), ("w3", 3)]
    assert (group.ordinal, group.state, group.reason, group.qualified_at) == (0, "Unknown", "CollectiveNotEvaluated", None)


def test_a_collective_without_workers_is_no_group() -> None:
    """Only the head runs."""
    assert scene(elasticEp={"width": 4}).tap(lambda s: s.pod("head", "qwen-elastic-head")).shown().groups == ()
