"""Built-in kinds: the defaults that people see, and the few checks that keep nonsense out. Their schema is otherwise lenient.

What the real server would refuse and this one does not is listed in docs/local-cluster.md.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from local import conditions
from local.selectors import label_selector_matches
from local.statuses import Cause
from local.wire import JSON

Defaulter = Callable[[JSON], None]
Checker = Callable[[JSON, JSON | None], list[Cause]]


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


# ------------------------------------------------------------------------------------------------------------- checks


def _required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


_TYPES: dict[str, type] = {
    "name": str,
    "image": str,
    "nodeName": str,
    "restartPolicy": str,
    "terminationGracePeriodSeconds": int,
}


def _check_types(obj: JSON, path: str) -> None:
    """The members that others rely on have their types. Raises TypeError, which the writer answers with 400."""
    for key, kind in _TYPES.items():
        value = obj.get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise TypeError(f"cannot unmarshal {type(value).__name__} into field {path}.{key} of type {kind.__name__}")


def _containers(spec: JSON, path: str) -> list[Cause]:
    _check_types(spec, path)
    containers = spec.get("containers") or []
    out = [] if containers else [_required(f"{path}.containers")]
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{path}.containers[{index}]"
        _check_types(container, where)
        name = container.get("name")
        if not name:
            out.append(_required(f"{where}.name"))
        elif name in seen:
            out.append(Cause(f"{where}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
        seen.add(name or "")
        if not container.get("image"):
            out.append(_required(f"{where}.image"))
    return out


def _check_pod(obj: JSON, old: JSON | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    out = _containers(spec, "spec")
    if old is not None and _frozen_spec(spec) != _frozen_spec(old.get("spec") or {}):
        text = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
            "`spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations), "
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        out.append(Cause("spec", "FieldValueForbidden", text))
    return out


def _frozen_spec(spec: JSON) -> JSON:
    """What of a Pod's spec may not change. The node is given once, by whoever plays the scheduler."""
    free = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName", "schedulingGates", "nodeSelector"}
    out = {key: value for key, value in spec.items() if key not in free}
    for where in ("containers", "initContainers"):
        if out.get(where):
            out[where] = [{key: value for key, value in item.items() if key not in {"image", "imagePullPolicy"}} for item in out[where]]
    return out


def _check_workload(obj: JSON, old: JSON | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    out = _containers(template.get("spec") or {}, "spec.template.spec")
    selector = spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector:
        out.append(_required("spec.selector"))
    elif any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        text = "Invalid value: `selector` does not match template `labels`"
        out.append(Cause("spec.template.metadata.labels", "FieldValueInvalid", text))
    if old is not None and selector != (old.get("spec") or {}).get("selector"):
        out.append(Cause("spec.selector", "FieldValueInvalid", "Invalid value: field is immutable"))
    return out


def _check_service(obj: JSON, old: JSON | None) -> list[Cause]:
    del old
    spec = obj.get("spec") or {}
    ports = spec.get("ports") or []
    out = []
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        out.append(_required("spec.ports"))
    for index, port in enumerate(ports):
        number = port.get("port")
        if not isinstance(number, int) or not 1 <= number <= 65535:
            text = f"Invalid value: {number}: must be between 1 and 65535, inclusive"
            out.append(Cause(f"spec.ports[{index}].port", "FieldValueInvalid", text))
        if len(ports) > 1 and not port.get("name"):
            out.append(_required(f"spec.ports[{index}].name"))
    return out


def _check_data(obj: JSON, old: JSON | None) -> list[Cause]:
    out = []
    if obj.get("kind") == "Secret":
        for key, value in (obj.get("data") or {}).items():
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, TypeError, ValueError):
                out.append(Cause(f"data[{key}]", "FieldValueInvalid", f"Invalid value: illegal base64 data in {key}"))
    if old is not None and old.get("immutable"):
        kept = ("data", "binaryData", "immutable")
        if any(obj.get(key) != old.get(key) for key in kept):
            out.append(Cause("data", "FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set"))
    return out


def _rule_faults(rules: Any, where: str) -> list[Cause]:
    """A rule that cannot be read would make every later write fail."""
    out = []
    for index, rule in enumerate(rules):
        for key in ("operations", "apiGroups", "apiVersions", "resources"):
            values = rule.get(key)
            if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
                out.append(_required(f"{where}[{index}].{key}"))
    return out


def _check_webhooks(obj: JSON, old: JSON | None) -> list[Cause]:
    del old
    out = []
    for index, hook in enumerate(obj.get("webhooks") or ()):
        where = f"webhooks[{index}]"
        if str(hook.get("name", "")).count(".") < 2:
            text = f'Invalid value: "{hook.get("name", "")}": should be a domain with at least three segments separated by dots'
            out.append(Cause(f"{where}.name", "FieldValueInvalid", text))
        if hook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            text = f'Unsupported value: "{hook.get("sideEffects", "")}": supported values: "None", "NoneOnDryRun"'
            out.append(Cause(f"{where}.sideEffects", "FieldValueNotSupported", text))
        if not set(hook.get("admissionReviewVersions") or ()) & {"v1", "v1beta1"}:
            out.append(_required(f"{where}.admissionReviewVersions", "must specify one of v1, v1beta1"))
        out += _rule_faults(hook.get("rules") or [], f"{where}.rules")
        for selector in ("objectSelector", "namespaceSelector"):
            label_selector_matches(hook.get(selector), {})  # trips here rather than in somebody's write
        config = hook.get("clientConfig") or {}
        if bool(config.get("url")) == bool(config.get("service")):
            out.append(_required(f"{where}.clientConfig", "exactly one of url or service is required"))
        elif config.get("url") and not str(config["url"]).startswith("https://"):
            text = f"Invalid value: \"{config['url']}\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"
            out.append(Cause(f"{where}.clientConfig.url", "FieldValueInvalid", text))
        out += conditions.faults(hook.get("matchConditions") or [], f"{where}.matchConditions")
        if not 1 <= hook.get("timeoutSeconds", 10) <= 30:
            text = f"Invalid value: {hook['timeoutSeconds']}: the timeout value must be between 1 and 30 seconds"
            out.append(Cause(f"{where}.timeoutSeconds", "FieldValueInvalid", text))
    return out


CHECKS: dict[str, Checker] = {
    "Pod": _check_pod,
    "Deployment": _check_workload,
    "ReplicaSet": _check_workload,
    "Service": _check_service,
    "Secret": _check_data,
    "ConfigMap": _check_data,
    "ValidatingWebhookConfiguration": _check_webhooks,
    "MutatingWebhookConfiguration": _check_webhooks,
}


def faults(obj: JSON, old: JSON | None) -> list[Cause]:
    """Field errors of a built-in kind."""
    checker = CHECKS.get(obj.get("kind", ""))
    return checker(obj, old) if checker is not None else []
