"""What must hold at every step, watched from both ends: when a process sends, and when the world has changed.

At the sending end the process's own cache is what a verdict may rest on, so a claim without support in it is caught before the wire adds
its delays. At the world's end the stored objects are the truth: an operation is there before its deletes, and is one at a time.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from api import keys
from controller.kinds import MODEL_DEPLOYMENTS, KindName
from controller.store import Key
from kube.resources import LEASES, PODS
from tests.simulation import evidence
from tests.simulation.actors import Resizer
from tests.simulation.belonging import Belonging
from tests.simulation.network import Network
from tests.simulation.objects import is_leaving
from tests.simulation.process import Process
from tests.simulation.store import Change, Object, labels, merge, meta
from tests.simulation.transport import Request, Response
from tests.simulation.world import World

REVERSIBLE: Final = ("Admitted", "Disqualified", "Withdrawing", "Draining", "Aborted")
DELETING: Final = ("Deleting", "Settling")
# A request that began so recently may lie between the last reading and the write.
UNSEEN_SECONDS: Final = 5.0
# How long after the end of its Lease a process may take to stop.
AFTERMATH_SECONDS: Final = 5.0
# A write that no watch has shown for so long is not waited for any more.
FORGOTTEN_SECONDS: Final = 60.0
# So many failed requests are a failed list: the client asks again by itself up to then.
ATTEMPTS: Final = 4
STATES: Final = (*REVERSIBLE[:4], *DELETING)


Sent = tuple[str, str, str]  # process, namespace, name


def _sent(request: Request) -> Sent:
    return request.who, request.namespace, request.name


class BrokenError(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


class Invariants:
    """`broken` is the first breach; the run ends with it."""

    def __init__(self, world: World, network: Network, resizer: Resizer, find: Callable[[str], Process | None]) -> None:
        self._world = world
        self._resizer = resizer
        self._belonging = Belonging(world)
        self._find = find
        self._network = network
        self.broken: BrokenError | None = None
        self.status_writes = 0
        self.deletes = 0
        self.transitions: defaultdict[str, int] = defaultdict(int)
        self._holder = ""
        self._robbed: dict[str, float] = {}  # who lost the Lease to a writer that keeps no rules, and when
        self._renewed = 0.0
        self._last_body: dict[Sent, Any] = {}
        self._failed: defaultdict[tuple[str, str], int] = defaultdict(int)  # process and kind -> lists that failed since one came
        self._listed: defaultdict[str, set[str]] = defaultdict(set)  # process -> kinds of which it got a list
        self._own: dict[Sent, tuple[str, float]] = {}  # the version of its last status write of an object, and when it knew of it
        world.watch(self._on_change)

    def attach(self, process: Process) -> None:
        """Watch a process's wire."""
        process.wire.sending.append(self._on_send)
        process.wire.audit.append(self._on_arrival)
        process.wire.answered.append(self._on_answer)

    def breach(self, invariant: str, detail: str) -> None:
        """Note the first breach."""
        if self.broken is None:
            self.broken = BrokenError(invariant, f"at {self._world.now:.3f} s, {detail}")

    # ------------------------------------------------------------------------------------------------------- sending end

    def _on_send(self, request: Request) -> None:
        if request.method == "GET" or request.plural in ("leases", "events"):
            return
        self._holds_lease(request)
        if request.subresource == "status":
            self._knows_own_write(request)
            self._reads_everything(request)
        process = self._find(request.who)
        if process is not None and request.subresource != "status":
            self._follows_its_write(process, request)
        if process is not None and request.plural == "pods" and request.method == "PATCH":
            self._takes_label_for_a_reason(process, request)
        if process is None or request.subresource != "status" or self._last_body.get(_sent(request)) == request.body:
            return
        self._last_body[_sent(request)] = request.body
        key = Key(request.namespace, request.name)
        cached = process.controller.cache.deployment(key)
        if cached is None or (request.body.get("metadata") or {}).get("resourceVersion") != cached.metadata.resource_version:
            return  # judged from a version that is over: the server refuses it
        view = evidence.View(process.controller.cache, key, cached, self._network, self._resizer.given_up)
        for invariant, detail in evidence.unsupported(view, request.body.get("status") or {}):
            self.breach(invariant, detail)

    def _follows_its_write(self, process: Process, request: Request) -> None:
        """An act rests on a stored status: on one that the process wrote only once its cache shows it."""
        cache, name = process.controller.cache, request.name
        if request.plural == "pods":
            pod = cache.find(KindName.POD, request.namespace, request.name)
            name = pod.metadata.labels.get(keys.INSTANCE, "") if pod is not None else ""
        version, at = self._own.get((request.who, request.namespace, name), ("", 0.0))
        cached = cache.deployment(Key(request.namespace, name))
        if cached is None or not version or self._world.now - at >= FORGOTTEN_SECONDS:
            return
        if int(cached.metadata.resource_version) < int(version):
            what = f"{request.who} sends {request.method} {request.plural}/{request.name}"
            self.breach("acts follow a write that is seen", f"{what} at @{cached.metadata.resource_version}, having written @{version}")

    def _takes_label_for_a_reason(self, process: Process, request: Request) -> None:
        """An Unknown criterion revokes nothing: a label goes for a member that failed, is missing, or is being retired."""
        cache = process.controller.cache
        pod = cache.find(KindName.POD, request.namespace, request.name)
        change = (request.body.get("metadata") or {}).get("labels") or {}
        key = Key(request.namespace, pod.metadata.labels.get(keys.INSTANCE, "")) if pod is not None else None
        cached = cache.deployment(key) if key is not None else None
        if key is None or cached is None or change.get(keys.ENDPOINT_ELIGIBLE, "") is not None:
            return
        if not evidence.retracted(evidence.View(cache, key, cached, self._network, self._resizer.given_up), pod):
            self.breach("an Unknown criterion revokes nothing", f"{request.who} takes the label from {request.name}")

    def _knows_own_write(self, request: Request) -> None:
        """A judgement of a version that the process itself has replaced is judging the past; it would only meet a conflict."""
        version, at = self._own.get(_sent(request), ("", 0.0))
        sent = (request.body.get("metadata") or {}).get("resourceVersion") or ""
        if version and sent and int(sent) < int(version) and self._world.now - at < FORGOTTEN_SECONDS:
            self.breach("own writes are waited for", f"{request.who} judged @{sent} after it wrote @{version}")

    def _reads_everything(self, request: Request) -> None:
        """A kind that was never listed, or whose list failed since, makes every verdict a guess."""
        owed = {"modeldeployments", "pods", "services", "deployments", *(["workloads"] if self._world.kueue else [])}
        if missing := owed - self._listed[request.who]:
            self.breach("no status while a kind cannot be read", f"{request.who} never listed {sorted(missing)}")
        failing = sorted(kind for kind in owed if self._failed[request.who, kind] >= ATTEMPTS)
        if failing and self._last_body.get(_sent(request)) != request.body:
            self.breach("no status while a kind cannot be read", f"{request.who} failed to list {failing}")
        process = self._find(request.who)
        blind = [name for name, kind in process.controller.reflectors.items() if not kind.readable] if process is not None else []
        if blind and self._last_body.get(_sent(request)) != request.body:
            self.breach("no status while a kind cannot be read", f"{request.who} cannot read {sorted(blind)}")

    def _on_answer(self, request: Request, response: Response | None) -> None:
        """`response` is None where none came."""
        if response is not None and request.subresource == "status" and response.version:
            self._own[_sent(request)] = (response.version, self._world.now)
        if request.method == "GET" and not request.name and not request.namespace and "watch" not in request.params:
            if response is not None and response.status == 200:
                self._listed[request.who].add(request.plural)
                self._failed[request.who, request.plural] = 0
            else:
                self._failed[request.who, request.plural] += 1

    def _holds_lease(self, request: Request) -> None:
        holder, now = self._holder, self._world.now
        process = self._find(request.who)
        if process is None:
            return
        lease = process.settings
        if holder != request.who and now - self._robbed.get(request.who, -1e9) > lease.renew_deadline:
            self.breach(
                "only the Lease holder writes", f"{request.who} sends {request.method} {request.plural} while {holder or 'nobody'} holds it"
            )
        elif holder == request.who and now - self._renewed > lease.lease_duration:
            self.breach(
                "only the Lease holder writes", f"{request.who} sends {request.method} with a Lease of {now - self._renewed:.1f} s ago"
            )

    # ------------------------------------------------------------------------------------------------------- arrival end

    def _on_arrival(self, request: Request, _sent: float) -> None:
        if request.subresource == "status" and request.plural == "modeldeployments":
            found = self._world.store.find(MODEL_DEPLOYMENTS, request.namespace, request.name)
            version = (request.body.get("metadata") or {}).get("resourceVersion")
            if found is None:
                return
            if not version:
                self.breach("a status is written with its resourceVersion", f"{request.who} sends none")
            elif version == meta(found)["resourceVersion"] and merge(found.get("status"), request.body.get("status")) == found.get(
                "status"
            ):
                self.breach("no write when nothing changed", f"{request.who} patches {request.name} with what is there")
        elif request.method == "DELETE":
            self._on_delete(request)

    def _on_delete(self, request: Request) -> None:
        self.deletes += 1
        wanted = ((request.body or {}).get("preconditions") or {}).get("uid")
        what = f"{request.who} deletes {request.plural}/{request.name} (UID {wanted})"
        if not wanted:
            self.breach("a delete carries its UID", what)
            return
        captured = []
        for deployment in self._world.deployments():
            operation = (deployment.get("status") or {}).get("retirement") or {}
            named = [*operation.get("targetMemberUIDs", ()), operation.get("targetWorkloadUID")]
            if wanted in named:
                captured.append(operation["state"])
        if not captured:
            if self._gone(request.plural, wanted):
                return  # it was on its way for long, and meets nobody
            self.breach("no UID is deleted that was not captured", what)
        elif captured[0] not in DELETING:
            self.breach("nothing is deleted before it was persisted", f"{what} while the stored operation is {captured[0]}")
        if request.plural == "workloads":
            self._on_workload_delete(request, wanted, what)

    def _gone(self, plural: str, uid: str) -> bool:
        found = self._world.pods() if plural == "pods" else self._world.store.list(self._world.workloads)
        return all(meta(item)["uid"] != uid for item in found)

    def _on_workload_delete(self, request: Request, wanted: str, what: str) -> None:
        found = self._world.store.find(self._world.workloads, request.namespace, request.name)
        targets = {
            uid
            for deployment in self._world.deployments()
            if ((deployment.get("status") or {}).get("retirement") or {}).get("targetWorkloadUID") == wanted
            for uid in deployment["status"]["retirement"]["targetMemberUIDs"]
        }
        others = {ref["uid"] for ref in meta(found).get("ownerReferences") or []} - targets if found else set()
        present = {meta(pod)["uid"] for pod in self._world.pods() if not is_leaving(pod)}
        cached = self._find(request.who)
        seen = cached.controller.cache.find(evidence.WORKLOAD, request.namespace, request.name) if cached else None
        known = {ref.uid for ref in seen.metadata.owner_references} if seen is not None else set()
        if others & present & known:
            self.breach("a Workload goes only with its last Pod", f"{what}, which {sorted(others & present)} still own")

    # -------------------------------------------------------------------------------------------------------- world's end

    def _on_change(self, change: Change) -> None:
        if change.resource is LEASES:
            self._on_lease(change)
        elif self._find(change.author) is None:
            return
        elif change.resource is MODEL_DEPLOYMENTS and change.old is not None and change.new is not None:
            self._on_deployment(change.old, change.new)
        elif change.resource is PODS and change.old is not None and change.new is not None and not is_leaving(change.new):
            self._on_pod(change.old, change.new)

    def _on_lease(self, change: Change) -> None:
        holder = (change.new or {}).get("spec", {}).get("holderIdentity") or ""
        before = self._find(self._holder)
        if holder != self._holder:
            if before is not None and self._find(change.author) is None:
                self._robbed[before.who] = change.at
            self._holder = holder
            self._own = {
                sent: known for sent, known in self._own.items() if sent[0] != holder
            }  # it forgets what it wrote in an earlier term
            if before is not None:
                self._world.after(before.settings.lease_duration + AFTERMATH_SECONDS, self._has_ended, before)
        self._renewed = change.at

    def _has_ended(self, process: Process) -> None:
        if process.alive and not process.frozen and process.controller.election.leading and self._holder != process.who:
            self.breach("who lost the Lease stops leading", f"{process.who} leads while {self._holder or 'nobody'} holds it")

    def _on_pod(self, old: Object, new: Object) -> None:
        stripped = [{k: v for k, v in labels(item).items() if k != keys.ENDPOINT_ELIGIBLE} for item in (old, new)]
        same = all(old.get(part) == new.get(part) for part in ("spec", "status")) and stripped[0] == stripped[1]
        if not same or meta(old).get("annotations") != meta(new).get("annotations"):
            self.breach("only the eligibility label of a Pod is written", meta(new)["name"])

    def _on_deployment(self, old: Object, new: Object) -> None:
        before, after = old.get("status") or {}, new.get("status") or {}
        if old.get("spec") != new.get("spec"):
            self.breach("the spec is never written", meta(new)["name"])
        if before == after:
            self._on_annotations(old, new)
            return
        self.status_writes += 1
        for detail in self._belonging.foreign(new):
            self.breach("nothing of one deployment in the status of another", detail)
        if after.get("observedGeneration", 0) > meta(new)["generation"] or after.get("observedGeneration", 0) < before.get(
            "observedGeneration", 0
        ):
            self.breach(
                "observedGeneration never runs back or ahead", f"{before.get('observedGeneration')} to {after.get('observedGeneration')}"
            )
        self._on_conditions(before, after)
        self._on_retirement(before.get("retirement"), after.get("retirement"))

    def _on_annotations(self, old: Object, new: Object) -> None:
        gone, came = (dict(meta(item).get("annotations") or {}) for item in (old, new))
        directive = gone.pop(keys.RETIREMENT_RETRY, None)
        if gone != came:
            self.breach("of a deployment only the retry annotation is cleared", f"{gone} to {came}")
        operation = (new.get("status") or {}).get("retirement") or {}
        if directive is not None and directive.rpartition(":")[2] != operation.get("lastConsumedRetryToken"):
            self.breach("a retry token is persisted before its annotation goes", directive)

    def _on_conditions(self, before: Object, after: Object) -> None:
        old = {c["type"]: c for c in before.get("conditions") or []}
        for entry in after.get("conditions") or []:
            known = old.get(entry["type"])
            if known is None:
                continue
            moved = known.get("lastTransitionTime") != entry.get("lastTransitionTime")
            if moved and known["status"] == entry["status"]:
                self.breach("lastTransitionTime moves only with the status", f"{entry['type']} stays {entry['status']}")
        foreign = {name for name in old if name not in evidence.OURS}
        lost = foreign - {c["type"] for c in after.get("conditions") or []}
        if lost:
            self.breach("other writers' conditions are kept", f"lost {sorted(lost)}")

    def _on_retirement(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            state = after["state"]
            self.transitions[f"{before['state'] if before else '-'}>{state}"] += 1
            if "" in after["targetMemberUIDs"] or not after["targetMemberUIDs"]:
                self.breach("an operation names its members' UIDs", str(after["targetMemberUIDs"]))
        elif before is not None:
            self.transitions[f"{before['state']}>-"] += 1
        if before is None:
            if after is not None and after["state"] != "Admitted":
                self.breach("an operation begins as Admitted", after["state"])
            return
        if after is None:
            if before["state"] not in ("Aborted", "Settling", "Completed"):
                self.breach("an operation in flight is not dropped", before["state"])
            if before["state"] == "Settling" and self._present(before["targetMemberUIDs"]):
                self.breach("an operation ends when its members are gone", str(before["targetMemberUIDs"]))
            return
        same = before["targetMemberUIDs"] == after["targetMemberUIDs"]
        if not same and (before["state"] != "Aborted" or self._present(before["targetMemberUIDs"])):
            self.breach(
                "never two retirements", f"{before['state']} of {before['targetMemberUIDs']} gives way to {after['targetMemberUIDs']}"
            )
        if same:
            self._on_step(before, after)

    def _on_step(self, before: Object, after: Object) -> None:
        old, new = before["state"], after["state"]
        if old == new:
            if (before["phaseStartedAt"], before["deadline"]) != (after["phaseStartedAt"], after["deadline"]):
                self.breach("polling moves no clock", f"{old}: {before['phaseStartedAt']} to {after['phaseStartedAt']}")
            return
        if new == "Aborted":
            if old in DELETING:
                self.breach("from Deleting on nothing is aborted", old)
        elif old == "Aborted":
            if new != "Admitted" or before.get("lastConsumedRetryToken") == after.get("lastConsumedRetryToken"):
                self.breach("an aborted operation goes on by a retry token only", new)
        elif new == "Deleting" and (busy := [uid for uid in after["targetMemberUIDs"] if self._busy(uid)]):
            self.breach("nothing is cut while it serves", f"{busy} have been busy")
        elif STATES.index(new) - STATES.index(old) != 1:
            self.breach("an operation takes one step at a time", f"{old} to {new}")

    def _busy(self, uid: str) -> bool:
        """Whether a captured member that answers has been busy for longer than between two readings."""
        pod = next((pod for pod in self._world.pods() if meta(pod)["uid"] == uid), None)
        answers = pod is not None and labels(pod).get(keys.MEMBER_INDEX) == "0" and pod["status"].get("phase") == "Running"
        return answers and self._network.occupied_for(uid) > UNSEEN_SECONDS

    def _present(self, uids: list[str]) -> list[str]:
        """Those of the members that exist and have not ended by themselves."""
        return [
            meta(pod)["uid"]
            for pod in self._world.pods()
            if meta(pod)["uid"] in uids and pod["status"].get("phase") not in ("Failed", "Succeeded")
        ]
