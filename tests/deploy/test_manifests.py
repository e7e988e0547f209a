"""The manifests agree with the code: paths, names, ports, settings, and permissions that are needed and no more."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from manifest_reading import DEPLOY, by_identity

from app.settings import Settings, variable
from app.verbs.install import _PLURALS, command
from certs.publisher import MUTATING_NAME, VALIDATING_NAME
from controller.kinds import kinds
from controller.observers.elastic import CONFIG_MAPS
from deploy.manifests import NEWEST, Options, manifests
from kube.client import Page
from kube.errors import NotFound
from kube.resources import CRDS, MUTATING_WEBHOOKS, REPLICA_SETS, VALIDATING_WEBHOOKS, Resource
from webhooks import lookups
from webhooks.server import PATHS

EVERYTHING = Options(kueue="absent", act="retire", network_policy=True, companions=True)
SETTINGS = Settings()
FILES = sorted(p.relative_to(DEPLOY).as_posix() for p in DEPLOY.rglob("*.yaml"))


@pytest.fixture(name="installed")
def _installed() -> dict[tuple[str, str], dict[str, Any]]:
    return by_identity(manifests(Options()))


def _webhooks(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    configurations = objects[("ValidatingWebhookConfiguration", VALIDATING_NAME)], objects[("MutatingWebhookConfiguration", MUTATING_NAME)]
    return {webhook["clientConfig"]["service"]["path"]: webhook for conf in configurations for webhook in conf["webhooks"]}


def test_every_path_that_is_served_is_called_and_no_other(installed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """A webhook of the configurations has a handler, and every handler has a webhook."""
    assert set(_webhooks(installed)) == set(PATHS)


def test_every_webhook_fails_closed_without_side_effects(installed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """The figures of the webhook lessons: Fail, None, Equivalent, ten seconds, v1 only."""
    for webhook in _webhooks(installed).values():
        assert webhook["failurePolicy"] == "Fail"
        assert webhook["sideEffects"] == "None"
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["timeoutSeconds"] == 10
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert "caBundle" not in webhook["clientConfig"]
        assert webhook["name"].count(".") >= 2


RULES = {
    "/validate-modeldeployment": ("worker.gpustack.ai", "modeldeployments", {"CREATE", "UPDATE"}),
    "/mutate-modeldeployment": ("worker.gpustack.ai", "modeldeployments", {"CREATE", "UPDATE"}),
    "/validate-modeldeploymentscaler": ("worker.gpustack.ai", "modeldeploymentscalers", {"CREATE", "UPDATE"}),
    "/mutate-pod": ("", "pods", {"CREATE"}),
}


@pytest.mark.parametrize(("path", "rule"), RULES.items(), ids=RULES.keys())
def test_each_webhook_is_called_for_its_kind(
    path: str, rule: tuple[str, str, set[str]], installed: dict[tuple[str, str], dict[str, Any]]
) -> None:
    """No status writes, no deletes, no other kinds."""
    (entry,) = _webhooks(installed)[path]["rules"]
    assert (entry["apiGroups"], entry["resources"], set(entry["operations"])) == ([rule[0]], [rule[1]], rule[2])


def test_the_pod_webhook_cannot_keep_the_cluster_from_starting(installed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """It sees only replicas of ModelDeployments, and nothing in our own namespace or the system's, wherever we are installed."""
    for objects, own in ((installed, "modelwarden-system"), (by_identity(manifests(Options(namespace="other"))), "other")):
        pod = _webhooks(objects)["/mutate-pod"]
        assert pod["objectSelector"] == {"matchLabels": {"app.kubernetes.io/name": "model-deployment"}}
        (expression,) = pod["namespaceSelector"]["matchExpressions"]
        assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        assert {own, "kube-system"} <= set(expression["values"])


def test_the_service_leads_to_the_port_that_is_served(installed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Webhook to Service, Service to container port, container port to setting, probes to the same port over HTTPS."""
    service = installed[("Service", SETTINGS.certs_service)]
    pod = installed[("Deployment", "modelwarden")]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (port,) = container["ports"]
    for webhook in _webhooks(installed).values():
        assert webhook["clientConfig"]["service"]["name"] == SETTINGS.certs_service
        assert webhook["clientConfig"]["service"]["namespace"] == SETTINGS.namespace
        assert webhook["clientConfig"]["service"]["port"] == service["spec"]["ports"][0]["port"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert port["containerPort"] == SETTINGS.serve_port
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/livez",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    assert {(probe["scheme"], probe["port"]) for probe in probes.values()} == {("HTTPS", port["name"])}


def test_our_own_pods_are_not_taken_for_replicas(installed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """The label that selects replicas must not be ours."""
    assert (
        installed[("Deployment", "modelwarden")]["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] != "model-deployment"
    )


def test_the_pod_is_restricted_and_its_root_read_only(installed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """What the restricted Pod security standard asks, two replicas, none lost in an update, and time to drain."""
    spec = installed[("Deployment", "modelwarden")]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]["maxUnavailable"]) == (2, 0)
    drain = next(float(e["value"]) for e in container["env"] if e["name"] == variable("serve.drainSeconds"))
    assert pod["terminationGracePeriodSeconds"] > drain + 20
    assert installed[("Namespace", "modelwarden-system")]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("folder", sorted(p.parent.relative_to(DEPLOY).as_posix() for p in DEPLOY.rglob("kustomization.yaml")))
def test_every_variable_that_is_set_is_a_setting(folder: str) -> None:
    """A misspelt variable ends the service at its start, so it must not be in a manifest."""
    known = {variable(str(field.alias)) for field in Settings.model_fields.values()} | {"POD_NAME", "POD_NAMESPACE"}
    for file in (DEPLOY / folder).glob("*.yaml"):
        for word in file.read_text(encoding="utf-8").replace(",", " ").replace("}", " ").split():
            if word.startswith("MODELWARDEN_"):
                assert word in known, f"{file}: {word}"


def _granted(objects: dict[tuple[str, str], dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Group, resource and verb of what the service's account may do."""
    out: set[tuple[str, str, str]] = set()
    for (kind, name), obj in objects.items():
        if kind in {"ClusterRole", "Role"} and name in {"modelwarden", "modelwarden-retire"}:
            for rule in obj["rules"]:
                out |= set(itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"]))
    return out


class Asked:
    """A client that has nothing, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: set[tuple[str, str, str]] = set()

    async def get(self, resource: Resource, *_: object) -> bytes:
        self.calls.add((resource.group, resource.plural, "get"))
        raise NotFound(404, "NotFound", "gone")

    async def pages(self, resource: Resource, *_: object) -> AsyncIterator[Page]:
        self.calls.add((resource.group, resource.plural, "list"))
        for page in ():
            yield page


async def _looked_up() -> set[tuple[str, str, str]]:
    """What the webhooks' look-ups call."""
    client = Asked()
    lookup = lookups.KubeLookup(client)  # type: ignore[arg-type]
    for kind in lookups._PLURALS:
        await lookup.get(kind, "team", "x")
    await lookup.scalers("team")
    return client.calls


def _needed() -> set[tuple[str, str, str]]:
    """What the code calls, kind by kind."""
    watched: list[Resource] = [resource for kind in kinds("required") for resource in kind.resources]
    watched += [CRDS, VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS]
    out = {(resource.group, resource.plural, verb) for resource in watched for verb in ("list", "watch")}
    asked = (REPLICA_SETS, CONFIG_MAPS, VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
    out |= {(resource.group, resource.plural, "get") for resource in asked}
    out |= asyncio.run(_looked_up())
    out |= {("worker.gpustack.ai", "modeldeployments/status", "patch")}
    out |= {("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")}
    out |= {("", "secrets", verb) for verb in ("get", "list", "watch", "create", "patch")}
    out |= {("events.k8s.io", "events", verb) for verb in ("create", "patch")}
    return out | {(hook.group, hook.plural, "patch") for hook in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)}


def test_the_account_may_do_what_the_code_calls_and_nothing_else(installed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Least privilege, checked in both directions: no wildcard, no missing verb, no verb to spare."""
    assert _granted(installed) == _needed()


def test_retirements_add_exactly_their_verbs() -> None:
    """Deleting and labelling is a permission that an installation has to choose."""
    more = _granted(by_identity(manifests(EVERYTHING))) - _needed()
    assert more == {
        ("", "pods", "patch"),
        ("", "pods", "delete"),
        ("kueue.x-k8s.io", "workloads", "delete"),
        ("worker.gpustack.ai", "modeldeployments", "patch"),
    }


def test_shards_add_what_their_leases_need_in_our_own_namespace() -> None:
    """Their number is a setting, so they go without names; nothing else is added, and one shard adds nothing."""
    objects, plain = by_identity(manifests(Options(shards=4))), by_identity(manifests(Options(shards=1)))
    assert objects.keys() - plain.keys() == {("Role", "modelwarden-shards"), ("RoleBinding", "modelwarden-shards")}
    role = objects[("Role", "modelwarden-shards")]
    assert role["metadata"]["namespace"] == SETTINGS.namespace
    assert role["rules"] == [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "update"]}]
    (container,) = objects[("Deployment", "modelwarden")]["spec"]["template"]["spec"]["containers"]
    assert container["env"][-1] == {"name": "MODELWARDEN_SHARDS", "value": "4"}


def test_secrets_leases_and_webhook_configurations_are_bound_to_names(installed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Only creating cannot be; the names are those that the code uses."""
    bound = {"secrets": SETTINGS.certs_secret, "leases": SETTINGS.leader_lease}
    bound |= {"validatingwebhookconfigurations": VALIDATING_NAME, "mutatingwebhookconfigurations": MUTATING_NAME}
    for role in (installed[("Role", "modelwarden")], installed[("ClusterRole", "modelwarden")]):
        for rule in role["rules"]:
            for resource in set(rule["resources"]) & bound.keys():
                assert rule["verbs"] == ["create"] or rule["resourceNames"] == [bound[resource]]
    assert installed[("Role", "modelwarden")]["metadata"]["namespace"] == SETTINGS.namespace


def test_a_namespace_of_ones_own_leaves_no_trace_of_ours() -> None:
    """Every place that names the namespace follows it, the objects' own and the references."""
    objects = manifests(Options(namespace="elsewhere", network_policy=True, act="retire"))
    assert "modelwarden-system" not in yaml.safe_dump(objects)
    placed = {obj["metadata"].get("namespace") for obj in objects}
    assert placed == {None, "elsewhere"}
    assert ("Namespace", "elsewhere") in by_identity(objects)


def test_an_image_and_the_absence_of_kueue_reach_the_container() -> None:
    """The two things that most installations change."""
    (container,) = by_identity(manifests(Options(image="r.example/x:1", kueue="absent")))[("Deployment", "modelwarden")]["spec"][
        "template"
    ]["spec"]["containers"]
    assert container["image"] == "r.example/x:1"
    assert {"name": variable("kueue"), "value": "absent"} in container["env"]


def test_objects_come_in_an_order_in_which_they_can_be_applied() -> None:
    """The namespace first, definitions before what uses them, and the fail-closed webhooks last."""
    order = [obj["kind"] for obj in manifests(EVERYTHING)]
    assert order[0] == "Namespace"
    assert order[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert (
        order.index("CustomResourceDefinition") < order.index("ClusterRole") < order.index("ClusterRoleBinding") < order.index("Deployment")
    )


def test_an_old_server_gets_no_kind_and_no_field_that_it_does_not_know() -> None:
    """Before 1.21 no PodDisruptionBudget, before 1.25 no CEL rules."""
    old = manifests(Options(version=(1, 20)))
    assert "PodDisruptionBudget" not in {obj["kind"] for obj in old}
    assert "x-kubernetes-validations" not in str(old)
    new = manifests(Options(version=NEWEST))
    assert "PodDisruptionBudget" in {obj["kind"] for obj in new}
    assert "x-kubernetes-validations" in str(new)


def test_the_verb_prints_the_manifests_without_a_cluster() -> None:
    """`mdctl install --dry-run` is a YAML stream of exactly the objects."""
    done = CliRunner().invoke(command, ["--dry-run", "--namespace", "elsewhere", "--companions"])
    assert done.exit_code == 0, done.output
    printed = list(yaml.safe_load_all(done.output))
    assert by_identity(printed).keys() == by_identity(manifests(Options(namespace="elsewhere", companions=True))).keys()
    assert "&id" not in done.output


def test_the_verb_can_name_every_kind_that_it_applies() -> None:
    """A kind without a plural would fail in the middle of an installation."""
    assert {obj["kind"] for obj in manifests(EVERYTHING)} <= _PLURALS.keys()


@pytest.mark.parametrize("file", [name for name in FILES if not name.startswith("chart/")])
def test_every_file_is_yaml_without_repeated_keys_or_tabs(file: str) -> None:
    """The file check for machines without kubectl: it parses, and every object says what it is."""
    text = Path(DEPLOY / file).read_text(encoding="utf-8")
    assert "\t" not in text
    for document in yaml.safe_load_all(text):
        if isinstance(document, dict):
            assert document["apiVersion"]
            assert document["kind"]


def test_the_image_s_tag_is_this_version() -> None:
    """A release that forgets the manifests would install its predecessor."""
    (container,) = by_identity(manifests(Options()))[("Deployment", "modelwarden")]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"modelwarden:{version('modelwarden')}"
    listing = yaml.safe_load((DEPLOY / "base" / "kustomization.yaml").read_text(encoding="utf-8"))
    assert listing["images"] == [{"name": "modelwarden", "newTag": version("modelwarden")}]
