"""A minimal Workload definition, so that a cluster without Kueue can hold what Kueue would write. Served as both of its beta versions."""

from local.wire import JSON

_FREE: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CONDITIONS: JSON = {
    "type": "array",
    "items": _FREE | {"required": ["type"], "properties": {"type": {"type": "string"}}},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}


def workload_definition() -> JSON:
    """The CustomResourceDefinition."""
    status = _FREE | {"properties": {"conditions": _CONDITIONS}}
    schema = {"type": "object", "properties": {"spec": _FREE, "status": status}}
    columns = [
        {"name": "Queue", "type": "string", "jsonPath": ".spec.queueName"},
        {"name": "Reserved in", "type": "string", "jsonPath": ".status.admission.clusterQueue"},
        {"name": "Admitted", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Admitted')].status"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    versions: list[JSON] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1beta2",
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
            "additionalPrinterColumns": columns,
        }
        for name in ("v1beta2", "v1beta1")
    ]
    names = {"plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList", "shortNames": ["wl"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "workloads.kueue.x-k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"}},
        "spec": {"group": "kueue.x-k8s.io", "scope": "Namespaced", "names": names, "versions": versions},
    }
