"""CacheAttached: is the cache observed to be in effect? Judged downstream of the engine, never on a rendered flag or a log line.

Source: seed "CacheAttached", status facts 4.3.
"""

import re
from collections.abc import Mapping

from api.objects import KVCachePoolBinding, ModelDeployment
from api.reasons import CACHE_ATTACHED
from controller.snapshot import CacheOperations, Observations
from controller.status.replicas import Fleet
from controller.status.text import listed
from controller.status.verdict import Verdict, verdict

_QUANTITY = re.compile(r"\+?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?")


def judge(
    deployment: ModelDeployment,
    binding: KVCachePoolBinding | None,
    fleet: Fleet,
    unmanaged: Mapping[str, bool],
    observations: Observations | None,
) -> Verdict:
    """`unmanaged` is the deployed command mode of each role; `binding` lends the shared domain's figures."""
    if deployment.spec.kv_cache is None:
        return verdict(CACHE_ATTACHED, "NotApplicable", "The deployment declares no KV cache.")
    if taken_over := [name for name, mode in unmanaged.items() if mode]:
        return verdict(CACHE_ATTACHED, "Unmanaged", f"Roles that replaced their command cannot be attributed: {listed(taken_over)}.")
    ready = [replica for replica in fleet.supervised() if replica.ready]
    if not ready:
        return verdict(CACHE_ATTACHED, "NoReplicaReady", "No replica is ready, so none can be asked.")
    accounts = {entry.pod_uid: entry for entry in observations.cache_operations} if observations else {}
    told = [(replica, [accounts[m.uid] for m in replica.members if m.uid in accounts]) for replica in ready]
    if active := [replica.where for replica, entries in told if _succeeded(entries)]:
        return verdict(CACHE_ATTACHED, "CacheActive", f"Store operations succeed on {listed(active)}.")
    if failing := [replica.where for replica, entries in told if any(entry.failed > 0 for entry in entries)]:
        return verdict(CACHE_ATTACHED, "CacheOperationsFailing", f"Every store operation failed on {listed(failing)}.")
    if binding is not None and _holds_data(binding):
        name = binding.spec.domain.name
        text = f"No replica gave an account, but the shared domain {name} holds data; other deployments may have put it there."
        return verdict(CACHE_ATTACHED, "CacheActive", text)
    return verdict(CACHE_ATTACHED, "NoObservationAvailable", "No ready replica gave an account, and the domain reports no data.")


def _succeeded(entries: list[CacheOperations]) -> bool:
    return any(entry.succeeded > 0 for entry in entries)


def _holds_data(binding: KVCachePoolBinding) -> bool:
    return (binding.status.blocks or 0) > 0 or _positive(binding.status.usage)


def _positive(quantity: str | float | None) -> bool:
    """Whether a Kubernetes quantity is above zero; one that cannot be read is no evidence."""
    if quantity is None:
        return False
    if not isinstance(quantity, str):
        return quantity > 0
    match = _QUANTITY.fullmatch(quantity.strip())
    return match is not None and float(match[1]) > 0
