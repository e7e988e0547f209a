"""The definitions are what an API server takes, what people can read, and what the rest of the project reads from."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

import deploy
from api import objects, status
from api.crd import files, owned, schema_of
from api.crd.variants import RULES, fitted, rule_patch
from api.schema import default, validate
from app.verbs.crds import generated

CRDS = Path(deploy.__file__).parent / "crds"
ALL = [definition for definitions in files().values() for definition in definitions]
KINDS = [definition["spec"]["names"]["kind"] for definition in ALL]


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node below and including this one, with its path."""
    yield path, schema
    for name, sub in (schema.get("properties") or {}).items():
        yield from nodes(sub, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]" if key == "items" else f"{path}{{}}")


def lists(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((path, node) for path, node in nodes(schema) if node.get("type") == "array")


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind: str) -> None:
    """`kubectl explain` has a sentence for every field, and no two words stuck together by a line break."""
    bare = [path for path, node in nodes(schema_of(kind)) if not node.get("description", "").strip() and path != ".metadata"]
    assert bare == []
    assert [
        path for path, node in nodes(schema_of(kind)) if "\n" in node.get("description", "") or "  " in node.get("description", "")
    ] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_structural(kind: str) -> None:
    """Every node has a type or is int-or-string, every list has items and a list type, and keys of list maps are required or defaulted."""
    for path, node in nodes(schema_of(kind)):
        assert node.get("type") or node.get("x-kubernetes-int-or-string") or path == "", path
        assert not (node.get("properties") and node.get("additionalProperties")), path
    for path, node in lists(schema_of(kind)):
        assert node["x-kubernetes-list-type"] in {"map", "atomic", "set"}, path
        for key in node.get("x-kubernetes-list-map-keys", ()):
            item = node["items"]
            assert key in item.get("required", ()) or "default" in item["properties"][key], f"{path} by {key}"


@pytest.mark.parametrize("kind", ["ModelDeployment", "ModelDeploymentScaler"])
def test_every_list_of_named_things_is_a_list_map(kind: str) -> None:
    """Server-side apply can only merge, and duplicates can only be refused, where the list says what names its items."""
    loose = [
        path
        for path, node in lists(schema_of(kind))
        if "name" in node["items"].get("properties", {})
        and node["x-kubernetes-list-type"] != "map"
        and not path.endswith("imagePullSecrets")
    ]
    assert loose == []


@pytest.mark.parametrize("kind", ["ModelDeployment", "ModelDeploymentScaler"])
def test_everything_in_the_spec_is_bounded(kind: str) -> None:
    """Lists, texts and so the cost of every rule have a limit that the API server can count with."""
    spec = schema_of(kind)["properties"]["spec"]
    assert [path for path, node in lists(spec) if "maxItems" not in node] == []
    texts = [(path, node) for path, node in nodes(spec) if node.get("type") == "string" or node.get("x-kubernetes-int-or-string")]
    assert [path for path, node in texts if "maxLength" not in node and "enum" not in node and "format" not in node] == []


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_satisfy_their_own_schema(kind: str) -> None:
    """An API server refuses a definition whose default does not validate."""
    for path, node in nodes(schema_of(kind)):
        if "default" in node:
            assert validate(node, default(node, node["default"]), path=path) == [], path


def test_the_definition_says_what_decision_d1_says() -> None:
    """Names, scope, category, subresource and the columns of `kubectl get`."""
    deployment, scaler = owned()
    assert deployment["metadata"]["name"] == "modeldeployments.worker.gpustack.ai"
    assert deployment["spec"]["names"] | {"listKind": "ModelDeploymentList"} == {
        "kind": "ModelDeployment",
        "listKind": "ModelDeploymentList",
        "plural": "modeldeployments",
        "singular": "modeldeployment",
        "categories": ["gpustack"],
        "shortNames": ["md"],
    }
    (version,) = deployment["spec"]["versions"]
    assert (deployment["spec"]["scope"], version["name"], version["served"], version["storage"]) == ("Namespaced", "v1", True, True)
    assert version["subresources"] == {"status": {}}
    assert [(c["name"], c["jsonPath"], c.get("priority", 0)) for c in version["additionalPrinterColumns"]] == [
        ("ENGINE", ".spec.engine.name", 0),
        ("ROLES", ".status.roleSummary", 0),
        ("PHASE", ".status.phase", 0),
        ("ENDPOINT", ".status.endpoint", 1),
        ("AGE", ".metadata.creationTimestamp", 0),
    ]
    assert (scaler["spec"]["names"]["shortNames"], scaler["spec"]["versions"][0]["subresources"]) == (["mds"], {"status": {}})


def test_the_companions_have_the_scopes_of_the_kinds_they_stand_for() -> None:
    """Two of the four kinds are cluster scoped."""
    scopes = {definition["spec"]["names"]["kind"]: definition["spec"]["scope"] for definition in files()["companions.yaml"]}
    assert scopes == {
        "InstanceType": "Cluster",
        "KVCachePool": "Cluster",
        "KVCachePoolBinding": "Namespaced",
        "ModelArtifact": "Namespaced",
    }


@pytest.mark.parametrize("name", sorted(generated()))
def test_the_written_definitions_are_current(name: str) -> None:
    """`make crds` was run after the last change of api/crd."""
    assert (CRDS / name).read_text(encoding="utf-8") == generated()[name]


def test_an_older_server_is_given_what_it_knows() -> None:
    """Before 1.25 no rules, before 1.28 rules without reason and fieldPath, and nothing else differs."""
    definition = owned()[0]
    assert RULES not in str(fitted(definition, (1, 20)))
    middle = str(fitted(definition, (1, 27)))
    assert RULES in middle
    assert "fieldPath" not in middle
    assert fitted(definition, (1, 28)) is definition


def test_the_rule_patch_gives_the_plain_definition_its_rules_back() -> None:
    """Plain definition plus patch is the whole definition, for both kinds."""
    for definition in owned():
        patched = fitted(definition, (1, 20))
        for operation in rule_patch(definition):
            *way, last = operation["path"].strip("/").split("/")
            node: Any = patched
            for step in way:
                node = node[int(step)] if isinstance(node, list) else node[step]
            assert last not in node
            node[last] = operation["value"]
        assert patched == definition


def _rules(kind: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], int]]:
    """Every rule with the node it stands on and how often it can run (the product of the lists above it)."""

    def walk(schema: dict[str, Any], path: str, times: int) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], int]]:
        for rule in schema.get(RULES, ()):
            yield path, rule, schema, times
        for name, sub in (schema.get("properties") or {}).items():
            yield from walk(sub, f"{path}.{name}", times)
        if isinstance(schema.get("items"), dict):
            yield from walk(schema["items"], f"{path}[]", times * schema["maxItems"])

    yield from walk(schema_of(kind), "", 1)


@pytest.mark.parametrize("kind", ["ModelDeployment", "ModelDeploymentScaler"])
def test_every_rule_can_be_registered(kind: str) -> None:
    """A rule has a message of one line, one of the four reasons, and a fieldPath that the schema has; no function is younger than 1.25."""
    young = ("quantity(", "isQuantity(", "ip(", "cidr(", "format.", "optional", ".sum(", ".findAll(", ".find(", "url(")
    for path, rule, schema, _ in _rules(kind):
        assert rule["message"], path
        assert "\n" not in rule["message"], path
        assert rule["reason"] in {"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"}, path
        assert not [word for word in young if word in rule["rule"]], rule["rule"]
        node = schema
        for step in rule.get("fieldPath", "").split(".")[1:]:
            assert step in node["properties"], f"{path}: {rule['fieldPath']}"
            node = node["properties"][step]


@pytest.mark.parametrize("kind", ["ModelDeployment", "ModelDeploymentScaler"])
def test_rules_stay_far_below_the_servers_cost_limit(kind: str) -> None:
    """The API server refuses a rule whose estimate passes 10 million, and a definition past 100 million.

    A coarse upper bound: every macro may walk the longest list of the spec that it can mean, each step costs as much as the whole
    expression is long, and a rule runs once for every item above it.
    """
    total = 0
    for _, rule, _, times in _rules(kind):
        text = rule["rule"]
        depth = max(sum(1 for macro in (".all(", ".exists(", ".filter(") for _ in range(part.count(macro))) for part in text.split(" || "))
        widest = 256 if ".env" in text else 64 if ".ports.all" in text else 10
        steps = 10 ** max(depth - 1, 0) * widest if depth else 1
        cost = times * steps * len(text) // 4
        assert cost < 10_000_000, (cost, text)
        total += cost
    assert total < 100_000_000


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        yield field.encode_name, hints[field.name]


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    for part in itertools.chain([annotation], get_args(annotation), *(get_args(a) for a in get_args(annotation))):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            yield part


def unknown(kind: type[msgspec.Struct], schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Members of a struct that the schema does not have."""
    for name, annotation in _fields(kind):
        if path == "" and name in {"metadata", "apiVersion", "kind"}:
            continue
        sub = schema.get("properties", {}).get(name)
        if sub is None:
            yield f"{path}.{name}"
            continue
        for struct in set(_structs(annotation)):
            yield from unknown(struct, sub.get("items") or sub, f"{path}.{name}")


PROJECTIONS = {
    "ModelDeployment": objects.ModelDeployment,
    "ModelDeploymentScaler": objects.ModelDeploymentScaler,
    "KVCachePoolBinding": objects.KVCachePoolBinding,
    "KVCachePool": objects.KVCachePool,
    "InstanceType": objects.InstanceType,
    "ModelArtifact": objects.ModelArtifact,
}


@pytest.mark.parametrize(("kind", "struct"), PROJECTIONS.items(), ids=PROJECTIONS.keys())
def test_projections_name_only_what_the_schema_has(kind: str, struct: type[msgspec.Struct]) -> None:
    """A field that is read here and misspelt would be absent for ever."""
    assert list(unknown(struct, schema_of(kind))) == []


def test_the_status_that_is_written_is_a_status_that_is_kept() -> None:
    """What api.status encodes and the schema does not have would be pruned in silence, and written again for ever."""
    assert list(unknown(status.Status, schema_of("ModelDeployment")["properties"]["status"], ".status")) == []


def test_every_status_field_of_the_schema_is_written_by_somebody() -> None:
    """A field that nothing fills is a promise that nobody keeps."""

    def silent(schema: dict[str, Any], kind: type[msgspec.Struct], path: str) -> Iterator[str]:
        fields = dict(_fields(kind))
        for name, sub in schema["properties"].items():
            if name not in fields:
                yield f"{path}.{name}"
            elif (inner := next(_structs(fields[name]), None)) is not None:
                yield from silent(sub.get("items") or sub, inner, f"{path}.{name}")

    assert list(silent(schema_of("ModelDeployment")["properties"]["status"], status.Status, "")) == []
