"""Built-in kinds: the defaults that people see, and what an update cannot take away. What is refused of them is in `local.checks`."""

import base64
from collections.abc import Callable

from local.wire import JSON

Defaulter = Callable[[JSON], None]


def _fill(target: JSON, **values: object) -> None:
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = value


def _namespace(obj: JSON) -> None:
    name = obj["metadata"].get("name", "")
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    _fill(obj.setdefault("spec", {}), finalizers=["kubernetes"])
    _fill(obj.setdefault("status", {}), phase="Active")


def _pod(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    _pod_spec(spec)
    status = obj.setdefault("status", {})
    _fill(status, phase="Pending", qosClass="BestEffort")


def _pod_spec(spec: JSON) -> None:
    _fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
        securityContext={},
    )
    for where in ("containers", "initContainers"):
        for container in spec.get(where) or ():
            if not isinstance(container, dict):
                continue
            image = str(container.get("image", ""))
            fixed = ":" in image.rpartition("/")[2] and not image.endswith(":latest")
            _fill(
                container,
                imagePullPolicy="IfNotPresent" if fixed or "@" in image else "Always",
                terminationMessagePath="/dev/termination-log",
                terminationMessagePolicy="File",
                resources={},
            )
            for port in container.get("ports") or ():
                _fill(port, protocol="TCP")
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                if isinstance(container.get(probe), dict):
                    _probe(container[probe])


def _probe(probe: JSON) -> None:
    _fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    if isinstance(probe.get("httpGet"), dict):
        _fill(probe["httpGet"], path="/", scheme="HTTP")


def keep(obj: JSON, old: JSON) -> None:
    """What the server once gave stays when an update does not mention it, in place."""
    if obj.get("kind") == "Service" and isinstance(obj.get("spec"), dict) and "clusterIP" in old["spec"]:
        _fill(obj["spec"], clusterIP=old["spec"]["clusterIP"])


def _service(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, type="ClusterIP", sessionAffinity="None")
    for port in spec.get("ports") or ():
        _fill(port, protocol="TCP", targetPort=port.get("port"))
    _fill(obj, status={"loadBalancer": {}})


def _workload(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, replicas=1)
    if obj.get("kind") == "Deployment":
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
        _fill(spec, strategy=strategy, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    template = spec.get("template")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        _pod_spec(template.setdefault("spec", {}))
    obj.setdefault("status", {})


def _secret(obj: JSON) -> None:
    _fill(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        data = obj.get("data") or {}
        obj["data"] = data | {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}


def _webhooks(obj: JSON) -> None:
    mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    for hook in obj.get("webhooks") or ():
        if not isinstance(hook, dict):
            continue
        _fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10, namespaceSelector={}, objectSelector={})
        if mutating:
            _fill(hook, reinvocationPolicy="Never")
        for rule in hook.get("rules") or ():
            _fill(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            _fill(service, port=443)


def _binding(obj: JSON) -> None:
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"}:
            _fill(subject, apiGroup="rbac.authorization.k8s.io")


DEFAULTS: dict[str, Defaulter] = {
    "Namespace": _namespace,
    "Pod": _pod,
    "Service": _service,
    "Deployment": _workload,
    "ReplicaSet": _workload,
    "Secret": _secret,
    "ValidatingWebhookConfiguration": _webhooks,
    "MutatingWebhookConfiguration": _webhooks,
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
}


def complete(obj: JSON) -> None:
    """Fill in the defaults of a built-in kind, in place."""
    defaulter = DEFAULTS.get(obj.get("kind", ""))
    if defaulter is not None:
        defaulter(obj)
