"""The guards that the invariants stand on, each with how to break it and with what catches it broken.

A cut replaces a text that stands once in a module. `caught_by` names a seed, a scenario of `directed`, a moment of a sweep
(`frozen SIZE AT`), or a test, and `tells` the invariant that is breached there. Where a second guard stands behind the first, the world
cannot tell them apart: then a test that names the promise has to.
"""

from typing import Final, NamedTuple


class Cut(NamedTuple):
    """Instead of `old`, `new`, in a module."""

    module: str
    old: str
    new: str


class Mutant(NamedTuple):
    """A guard broken."""

    guard: str
    cuts: tuple[Cut, ...]
    caught_by: str
    tells: str = ""


ACTS: Final = "controller.status.acts"
RETIREMENT: Final = "controller.status.retirement"
RUNNER: Final = "controller.runner"
OBSERVERS: Final = "controller.observers.service"

_AFTER_THE_WRITE = Cut(RUNNER, "if self._acting is not None and not wrote:", "if self._acting is not None:")
_BEFORE_THE_WRITE = Cut(
    RUNNER,
    "        wrote = await self._writer.write(",
    "        if self._acting is not None:\n"
    '            deletions = [act for act in acts_of(assessment) if act.kind.startswith("delete")]\n'
    "            await self._acting.perform(key, snapshot, deletions, self._may_write)\n"
    "        wrote = await self._writer.write(",
)
_STORED_STATE = Cut(ACTS, '        or stored.state not in {"Deleting", "Settling"}\n', "")
_ASKED_AGAIN = Cut("controller.acting", "        if not same:\n", "        same = True\n        if not same:\n")
_ASKS_THE_LEASE = Cut(RUNNER, "        if not self._may_write():", "        if not self._may_write() and False:")
_MEMBERS_GONE = Cut(RETIREMENT, "    if remaining:\n", "    if remaining and False:\n")

MUTANTS: Final[dict[str, Mutant]] = {
    "nothing-changed": Mutant(
        "an unchanged status is not sent",
        (Cut("controller.writer", "        if not patch:", '        patch = patch or b"{}"\n        if not patch:'),),
        "scenario late-telling",
        "no write when nothing changed",
    ),
    "own-writes": Mutant(
        "own writes are waited for",
        (
            Cut(
                "controller.writer",
                "            return False\n        return True\n\n    def inter",
                "            return False\n        return False\n\n    def inter",
            ),
        ),
        "scenario late-telling",
        "own writes are waited for",
    ),
    "patch-version": Mutant(
        "a status patch carries the version that was judged",
        (
            Cut(
                "controller.writer",
                '{"metadata": {"resourceVersion": version}, "status": msgspec.Raw(patch)}',
                '{"status": msgspec.Raw(patch)}',
            ),
        ),
        "scenario late-telling",
        "a status is written with its resourceVersion",
    ),
    "transition-time": Mutant(
        "lastTransitionTime stays while the status does",
        (Cut("controller.status.verdict", "before.last_transition_time if before is not None and kept else now", "now"),),
        "scenario late-telling",
        "lastTransitionTime moves only with the status",
    ),
    "foreign-conditions": Mutant(
        "conditions of other writers are kept",
        (Cut("controller.status.verdict", "return (*mine, *(c for c in before if c.type not in reasons.BY_TYPE))", "return (*mine,)"),),
        "scenario leap-of-time",
        "other writers' conditions are kept",
    ),
    "leaving-pod": Mutant(
        "a leaving Pod is never ready",
        (
            Cut(
                "controller.status.replicas",
                "        live = [pod for pod in pods if not pod.metadata.deleting]",
                "        live = list(pods)",
            ),
            Cut("controller.status.replicas", "    if pod.metadata.deleting:\n        return Ready.FALSE\n", ""),
        ),
        "scenario late-telling",
        "a leaving or unreported Pod is never counted ready",
    ),
    "unreported": Mutant(
        "what nobody reported is Unknown, not False",
        (Cut("controller.status.replicas", "return Ready.UNKNOWN if reported is None", "return Ready.FALSE if reported is None"),),
        "scenario late-telling",
        "Unknown never turns False without a definite fact",
    ),
    "acts-after-write": Mutant(
        "acts follow a write, and never accompany it", (_AFTER_THE_WRITE,), "scenario late-telling", "acts follow a write that is seen"
    ),
    "stored-state": Mutant(
        "a deletion is asked for by the stored state, not by the one just judged",
        (_STORED_STATE,),
        "test tests/controller/status/test_status_acts.py::test_the_pass_that_decides_the_delete_deletes_nothing",
    ),
    "asked-again": Mutant(
        "before the first delete of a pass the API server is asked whether the operation is still stored",
        (_ASKED_AGAIN,),
        "test tests/controller/test_acting.py::test_an_operation_that_is_no_longer_stored_deletes_nothing",
    ),
    "delete-guards": Mutant(
        "nothing is deleted before it was persisted (all three guards)",
        (_BEFORE_THE_WRITE, _STORED_STATE, _ASKED_AGAIN),
        "scenario late-telling",
        "nothing is deleted before it was persisted",
    ),
    "delete-uid": Mutant(
        "a delete carries the captured UID",
        (Cut("controller.acting", "act.namespace, uid=act.uid)", "act.namespace)"),),
        "scenario late-telling",
        "a delete carries its UID",
    ),
    "one-operation": Mutant(
        "one operation at a time",
        (
            Cut(
                RETIREMENT,
                "    if operation.state in REVERSIBLE:\n",
                "    if operation.state in REVERSIBLE and len(view.intents) > 1:\n"
                "        return _admit(View(view.snapshot, view.fleet, view.selection, view.intents[-1:]))\n"
                "    if operation.state in REVERSIBLE:\n",
            ),
        ),
        "scenario two-removals",
        "never two retirements",
    ),
    "members-gone": Mutant(
        "Deleting waits until its members are gone, and so does the end",
        (
            _MEMBERS_GONE,
            Cut(RETIREMENT, "    if workload is None:\n        return None\n    late", "    if True:\n        return None\n    late"),
        ),
        "scenario late-telling",
        "an operation ends when its members are gone",
    ),
    "polling-clock": Mutant(
        "polling moves no clock",
        (
            Cut(
                RETIREMENT,
                "    return replace(operation, reason=bounded(reason))\n",
                '    now = datetime.now(parse_time("2026-01-01T00:00:00Z").tzinfo)\n'
                "    return replace(operation, reason=bounded(reason), phase_started_at=format_time(now))\n",
            ),
        ),
        "scenario late-telling",
        "polling moves no clock",
    ),
    "token-persisted": Mutant(
        "a retry token is persisted before its annotation goes",
        (
            Cut(
                ACTS,
                "directive == (stored.role_name, stored.replica_ordinal, stored.last_consumed_retry_token)",
                "directive[:2] == (stored.role_name, stored.replica_ordinal)",
            ),
        ),
        "seed 13",
        "a retry token is persisted before its annotation goes",
    ),
    "new-token": Mutant(
        "an aborted operation goes on by a new token only",
        (Cut(RETIREMENT, "if token != operation.last_consumed_retry_token:", "if True:"),),
        "scenario repeated-token",
        "an aborted operation goes on by a retry token only",
    ),
    "no-abort": Mutant(
        "from Deleting on nothing is aborted",
        (
            Cut(
                RETIREMENT,
                '    if operation.state == "Deleting":\n',
                '    if operation.state == "Deleting" and view.now >= _end(replace(operation, state="Admitted")):\n'
                '        return _abort(view, operation, "spent")\n    if operation.state == "Deleting":\n',
            ),
        ),
        "seed 1",
        "from Deleting on nothing is aborted",
    ),
    "two-idle-reads": Mutant(
        "nothing is cut while it serves: two idle reads in a row",
        (Cut(RETIREMENT, 'if len(seen) < 2 or any(read.outcome != "Idle" for read in seen[-2:]):', "if not seen:"),),
        "scenario busy-drain",
        "nothing is cut while it serves",
    ),
    "shared-workload": Mutant(
        "a Workload that other Pods share stays",
        (Cut(ACTS, " and sole(workload, targets):", ":"),),
        "test tests/controller/test_acting.py::test_a_shared_workload_survives",
    ),
    "unreadable-kind": Mutant(
        "no status while a kind cannot be read",
        (Cut(RUNNER, "        if not self._readable():", "        if not self._readable() and False:"),),
        "seed 0",
        "no status while a kind cannot be read",
    ),
    "failed-list": Mutant(
        "a failed list is no empty list",
        (
            Cut(
                "controller.reflector",
                '                self._unreadable(f"list failed: {error}")\n',
                "                self._commit(ObjectMap())\n                self._become_readable()\n",
            ),
        ),
        "scenario failing-list",
        "no status while a kind cannot be read",
    ),
    "gone-relists": Mutant(
        "410 lists again",
        (
            Cut(
                "controller.reflector",
                "                await self._relist_after(error)\n                return\n            except (TransportError",
                "                self._version = str(int(self._version) + 40)\n                continue\n"
                "            except (TransportError",
            ),
        ),
        "scenario hidden-deletion",
        "status equals the judgement of a fresh list",
    ),
    "list-difference": Mutant(
        "deletions are told by a list's difference",
        (Cut("controller.store", "                yield Change(old, None)\n            elif", "                pass\n            elif"),),
        "scenario hidden-deletion",
        "status equals the judgement of a fresh list",
    ),
    "added-meanwhile": Mutant(
        "a key that is added while it is worked on comes again",
        (
            Cut(
                "controller.queue",
                "        if key in self._dirty:\n            self._enqueue(key)\n",
                "        self._dirty.pop(key, None)\n",
            ),
        ),
        "scenario silent-engines",
        "status equals the judgement of a fresh list",
    ),
    "asks-the-lease": Mutant("a pass asks the Lease before it writes", (_ASKS_THE_LEASE,), "frozen 1 20", "only the Lease holder writes"),
    "acts-ask-the-lease": Mutant(
        "an act asks the Lease anew",
        (Cut("controller.acting", "            if not permitted():", "            if not permitted() and False:"),),
        "frozen 2 152",
        "only the Lease holder writes",
    ),
    "leading-ends": Mutant(
        "leading ends when the Lease is lost",
        (
            Cut(
                "controller.election",
                "holder=self.holder)\n                return\n",
                "holder=self.holder)\n                await self._clock.sleep(1.0)\n                continue\n",
            ),
        ),
        "scenario lost-lease",
        "who lost the Lease stops leading",
    ),
    "stale-view": Mutant(
        "a view that comes again after it had grown stale is news",
        (Cut(OBSERVERS, "        aged = key in self._leapt or any(self._grew_stale(view) for view in known)", "        aged = False"),),
        "scenario leap-of-time",
        "status equals the judgement of a fresh list",
    ),
    "router-news": Mutant(
        "what routers select is news",
        (
            Cut(
                OBSERVERS,
                "        self._keep(key, uid, router_views=fresh)\n        return news",
                "        self._keep(key, uid, router_views=fresh)\n        return False",
            ),
        ),
        "scenario slow-router",
        "status equals the judgement of a fresh list",
    ),
    "forward-probe": Mutant(
        "a forward probe that nobody answers is no failure",
        (
            Cut(
                "controller.status.eligibility",
                'return Leg.VERIFIED if seen == {"Bound"} else Leg.UNKNOWN',
                'return Leg.VERIFIED if seen == {"Bound"} else Leg.FAILED',
            ),
        ),
        "scenario silent-engines",
        "Unknown never turns False without a definite fact",
    ),
    "cache-metrics-error": Mutant(
        "metrics that cannot be read are no account of the cache",
        (
            Cut(
                OBSERVERS,
                '                return None\n            metrics.OBSERVATIONS.labels("cache", "answer"',
                "                return CacheOperations(pod_uid=pod.metadata.uid, failed=1)\n"
                '            metrics.OBSERVATIONS.labels("cache", "answer"',
            ),
        ),
        "scenario garbled-metrics",
        "nothing turns False without a definite fact",
    ),
    "time-repeat": Mutant(
        "a pass comes again when a budget ends, though nobody says anything",
        (
            Cut(
                "controller.passes",
                "    return min((seconds for seconds in (left, poll) if seconds is not None), default=None)",
                "    return None",
            ),
        ),
        "scenario spent-budget",
        "it comes to rest",
    ),
    "narrowed-by-others": Mutant(
        "a Service that another deployment controls narrows nothing",
        (Cut("controller.status.router", "    ours = owner is not None and owner.uid == owner_uid\n", "    ours = owner is not None\n"),),
        "scenario namesake",
        "nothing of one deployment in the status of another",
    ),
    "owner-uid": Mutant(
        "the owner's UID decides whose a Pod is",
        (
            Cut(
                "controller.status.replicas",
                "    return owner is not None and owner.uid == uid and bool(uid)",
                "    return owner is not None",
            ),
        ),
        "scenario impostor",
        "nothing turns False without a definite fact",
    ),
}
