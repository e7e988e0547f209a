"""What is counted while a subject works: requests by verb, writes by their fate, and how long each Pod's change took to be written.

A change counts as written when a status that was sent shows the Pod as it is, whoever wrote it: every subject puts its Pods' readiness into
`status.roles[].groups[].members[]`. A change that was undone before anybody wrote it is coalesced: nobody owes a write for it.
"""

import time
from collections import Counter
from typing import Any


def percentile(values: list[float], share: float) -> float | None:
    """The nearest-rank percentile; None of nothing."""
    if not values:
        return None
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


class Ledger:
    """Pods are known by their number, deployments by theirs."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()  # applied, noop, conflict
        self.latencies: list[float] = []
        self.coalesced = 0
        self.owed: dict[int, dict[str, tuple[str, float]]] = {}  # deployment -> Pod UID -> (readiness, when it was told)
        self.wrong: set[str] = set()  # UIDs of Pods that the status which stands shows otherwise than they are
        self._shown: dict[int, dict[str, str]] = {}
        self._truth: dict[str, str] = {}

    def told(self, deployment: int, pod: str, ready: str) -> None:
        """A watcher was handed a Pod's change."""
        owed = self.owed.setdefault(deployment, {})
        if owed.pop(pod, None) is not None:
            self.coalesced += 1
        self._truth[pod] = ready
        shown = self._shown.get(deployment, {}).get(pod)
        (self.wrong.discard if shown in (ready, None) else self.wrong.add)(pod)
        if shown == ready:
            self.coalesced += 1  # undone: the status that stands is right again
        else:
            owed[pod] = (ready, time.perf_counter())
        if not owed:
            del self.owed[deployment]

    def wrote(self, deployment: int, status: dict[str, Any]) -> None:
        """A status now stands."""
        now = time.perf_counter()
        shown = {
            member["uid"]: member["ready"]
            for role in status.get("roles") or ()
            for group in role.get("groups") or ()
            for member in group.get("members") or ()
        }
        self._shown[deployment] = shown
        for pod, ready in shown.items():
            (self.wrong.discard if self._truth.get(pod, "True") == ready else self.wrong.add)(pod)
        owed = self.owed.get(deployment)
        if owed is None:
            return
        for pod in [pod for pod, (ready, _) in owed.items() if shown.get(pod) == ready]:
            self.latencies.append(now - owed.pop(pod)[1])
        if not owed:
            del self.owed[deployment]

    def cut(self) -> dict[str, Any]:
        """Everything since the last cut, milliseconds for latencies; then count anew."""
        found = {
            "requests": dict(sorted(self.requests.items())),
            "writes": dict(sorted(self.writes.items())),
            "changes_written": len(self.latencies),
            "changes_coalesced": self.coalesced,
            **{f"p{share * 100:g}_ms": _milli(percentile(self.latencies, share)) for share in (0.5, 0.99)},
        }
        self.requests, self.writes, self.latencies, self.coalesced = Counter(), Counter(), [], 0
        return found


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
