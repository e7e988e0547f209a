"""DomainRegistered: did the referenced Binding resolve, and was its domain read?

Source: seed "DomainRegistered", status facts 4.1.
"""

from api.objects import KVCachePoolBinding, ModelDeployment, condition
from api.reasons import DOMAIN_REGISTERED
from api.status import CacheDomain, CacheStatus
from controller.status.verdict import Verdict, verdict


def judge(deployment: ModelDeployment, binding: KVCachePoolBinding | None) -> Verdict:
    """`binding` is the deployment's own namespace's Binding of the referenced name, None where there is none."""
    cache = deployment.spec.kv_cache
    if cache is None:
        return verdict(DOMAIN_REGISTERED, "NotApplicable", "The deployment declares no KV cache.")
    where = f"Binding {cache.pool_ref.name} of namespace {deployment.metadata.namespace}"
    if binding is None:
        return verdict(DOMAIN_REGISTERED, "BindingNotFound", f"{where} does not exist.")
    pool, domain = binding.spec.pool_ref.name, binding.spec.domain.name
    where = f"{where} (pool {pool}, domain {domain})"
    if binding.metadata.deleting:
        return verdict(DOMAIN_REGISTERED, "BindingDeleting", f"{where} is being deleted.")
    if binding.status.phase != "Ready":
        phase = f"is {binding.status.phase}" if binding.status.phase else "has not been observed yet"
        note = f": {binding.status.phase_message}" if binding.status.phase_message else "."
        return verdict(DOMAIN_REGISTERED, "BindingNotReady", f"{where} {phase}{note}")
    granted = condition(binding.status.conditions, "QuotaGranted")
    if granted is None or granted.status != "True":
        quota = "is not granted" if granted is not None and granted.status == "False" else "is not known to be granted"
        return verdict(DOMAIN_REGISTERED, "BindingNotReady", f"{where} is Ready, but its quota {quota}.")
    return verdict(DOMAIN_REGISTERED, "Registered", f"{where} resolved.")


def published(binding: KVCachePoolBinding) -> CacheStatus:
    """`status.kvCache` of a resolved Binding."""
    domain = binding.spec.domain
    return CacheStatus(
        binding=binding.metadata.name,
        pool=binding.spec.pool_ref.name,
        domain=CacheDomain(name=domain.name, block_size=domain.block_size, dtype=domain.dtype),
    )
