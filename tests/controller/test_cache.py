"""Stores and indexes: what a change concerns, and what is no change."""

from typing import Any

import msgspec
import pytest
from things import Thing, deployment, pod, router_pod, workload

from controller.cache import Cache
from controller.kinds import KindName, kinds
from controller.store import Key, ObjectMap, is_older

CHAT = Key("team", "chat")


class Fed:
    """A cache and the table that projects into it."""

    def __init__(self) -> None:
        table = kinds("required")
        self.kinds = {kind.name: kind for kind in table}
        self.cache = Cache(table)

    def item(self, kind: KindName, json: dict[str, Any], version: int = 1) -> Any:
        json["metadata"]["resourceVersion"] = str(version)
        return self.kinds[kind].project(msgspec.json.encode(json))

    def put(self, kind: KindName, json: dict[str, Any], version: int = 1) -> set[Key] | None:
        change = self.cache.stores[kind].put(self.item(kind, json, version))
        return None if change is None else self.cache.note(kind, change)

    def drop(self, kind: KindName, json: dict[str, Any]) -> set[Key] | None:
        change = self.cache.stores[kind].drop(self.item(kind, json, 99).metadata)
        return None if change is None else self.cache.note(kind, change)


def test_every_kind_finds_its_deployment() -> None:
    """An object of each kind concerns the deployment that reads it, and no other."""
    fed = Fed()
    made = deployment(kvCache={"poolRef": {"name": "bind"}}, model={"name": "m", "artifactRef": {"name": "art"}})
    assert fed.put(KindName.DEPLOYMENT, made) == {CHAT}
    fed.put(KindName.DEPLOYMENT, deployment("other"))
    member = pod(made, "p").json
    assert fed.put(KindName.POD, member) == {CHAT}
    assert fed.put(KindName.WORKLOAD, workload(member)) == {CHAT}
    service = Thing("v1", "Service", "chat").owned_by(made).json
    assert fed.put(KindName.SERVICE, service) == {CHAT}
    router = Thing("apps/v1", "Deployment", "chat-router").owned_by(made).json
    assert fed.put(KindName.ROUTER, router) == {CHAT}
    assert fed.put(KindName.POD, router_pod(made).json) == {CHAT}
    binding = Thing("worker.gpustack.ai/v1", "KVCachePoolBinding", "bind").json
    binding["spec"] = {"poolRef": {"name": "pool"}}
    assert fed.put(KindName.BINDING, binding) == {CHAT}
    assert fed.put(KindName.POOL, Thing("worker.gpustack.ai/v1", "KVCachePool", "pool", "").json) == {CHAT}
    assert fed.put(KindName.ARTIFACT, Thing("worker.gpustack.ai/v1", "ModelArtifact", "art").json) == {CHAT}


def test_a_pod_that_changes_hands_concerns_both() -> None:
    """A relabelled Pod leaves one deployment and joins another."""
    fed = Fed()
    made = deployment()
    member = pod(made, "p").json
    fed.put(KindName.POD, member)
    member["metadata"]["labels"]["app.kubernetes.io/instance"] = "other"
    assert fed.put(KindName.POD, member, 2) == {CHAT, Key("team", "other")}
    assert fed.cache.pods(CHAT) == []


@pytest.mark.parametrize("going", ["deleted", "let go of the Pod", "missing from a list"])
def test_a_workload_of_another_namespace_takes_nothing_along(going: str) -> None:
    """It may bear the same name and name the same Pod: owners are texts, and whoever writes a Workload chooses them."""
    fed = Fed()
    made = deployment()
    fed.put(KindName.DEPLOYMENT, made)
    member = pod(made, "p").json
    fed.put(KindName.POD, member)
    fed.put(KindName.WORKLOAD, workload(member))
    stranger = workload(member)
    stranger["metadata"] |= {"namespace": "elsewhere", "uid": "uid-stranger"}
    fed.put(KindName.WORKLOAD, stranger)
    store = fed.cache.stores[KindName.WORKLOAD]
    if going == "deleted":
        fed.drop(KindName.WORKLOAD, stranger)
    elif going == "let go of the Pod":
        stranger["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "uid-q"}]
        fed.put(KindName.WORKLOAD, stranger, 2)
    else:
        fresh = ObjectMap()
        fresh.put(store.get("team", "w0"))
        for change in store.replace(fresh):
            fed.cache.note(KindName.WORKLOAD, change)
    (found,) = fed.cache.workloads("team", fed.cache.pods(CHAT))
    assert found.metadata.namespace == "team"


def test_a_workload_outlives_its_pods_where_its_uid_is_asked_for() -> None:
    """A settling operation still finds the Workload of Pods that are gone."""
    fed = Fed()
    made = deployment()
    member = pod(made, "p").json
    fed.put(KindName.POD, member)
    fed.put(KindName.WORKLOAD, workload(member))
    fed.drop(KindName.POD, member)
    assert fed.cache.workloads("team", [], "uid-w0")[0].metadata.name == "w0"
    assert fed.cache.workloads("team", []) == []


@pytest.mark.parametrize(
    ("second", "version", "concerned"),
    [
        pytest.param({}, 1, None, id="a repetition is no change"),
        pytest.param({"phase": "Running"}, 0, None, id="an older version is no change"),
        pytest.param({"hostIP": "1.2.3.4"}, 2, set(), id="a field that nobody reads concerns nobody"),
        pytest.param({"phase": "Running"}, 2, {CHAT}, id="a field that is read concerns its deployment"),
    ],
)
def test_what_counts_as_a_change(second: dict[str, str], version: int, concerned: set[Key] | None) -> None:
    """Repeated, reordered and meaningless events start no pass."""
    fed = Fed()
    member = pod(deployment(), "p").json
    fed.put(KindName.POD, member)
    member["status"].update(second)
    assert fed.put(KindName.POD, member, version) == concerned


def test_a_late_delete_of_a_recreated_object_is_ignored() -> None:
    """A deletion names an object by UID; its successor of that name stays."""
    fed = Fed()
    made = deployment()
    old = pod(made, "p").json
    fed.put(KindName.POD, old)
    new = pod(made, "p").json
    new["metadata"]["uid"] = "uid-new"
    fed.put(KindName.POD, new, 2)
    assert fed.drop(KindName.POD, old) is None
    assert fed.cache.pods(CHAT)[0].metadata.uid == "uid-new"


def test_a_list_tells_what_is_gone_new_and_changed() -> None:
    """A whole list instead of events yields the same changes that the events would have."""
    fed = Fed()
    made = deployment()
    for name in ("stays", "changes", "goes"):
        fed.put(KindName.POD, pod(made, name).json)
    store = fed.cache.stores[KindName.POD]
    fresh = ObjectMap()
    for json, version in ((pod(made, "stays").json, 1), (pod(made, "changes").ready().json, 5), (pod(made, "comes").json, 6)):
        store.collect(fed.item(KindName.POD, json, version), fresh)
    changes = list(store.replace(fresh))
    told = {(c.old and c.old.metadata.name, c.new and c.new.metadata.name) for c in changes}
    assert told == {("changes", "changes"), ("goes", None), (None, "comes")}


def test_nothing_is_left_in_the_indexes() -> None:
    """Removing every object empties every index: a long life costs no memory."""
    fed = Fed()
    made = deployment(kvCache={"poolRef": {"name": "bind"}})
    member = pod(made, "p").json
    fed.put(KindName.DEPLOYMENT, made)
    fed.put(KindName.POD, member)
    fed.put(KindName.WORKLOAD, workload(member))
    fed.drop(KindName.WORKLOAD, workload(member))
    fed.drop(KindName.POD, member)
    fed.drop(KindName.DEPLOYMENT, made)
    cache = fed.cache
    assert not any(len(index) for index in cache._children.values())
    assert not len(cache._workloads)
    assert not len(cache._referrers)


@pytest.mark.parametrize(("version", "than", "older"), [("9", "10", True), ("10", "9", False), ("10", "10", False), ("x", "10", False)])
def test_versions(version: str, than: str, older: bool) -> None:
    """Versions are compared as numbers, and opaque ones never count as older."""
    assert is_older(version, than) is older


def test_a_deployment_does_not_hold_on_to_its_page() -> None:
    """The raw status is a copy of its own bytes."""
    fed = Fed()
    made = deployment()
    made["status"] = {"phase": "Ready"}
    item = fed.item(KindName.DEPLOYMENT, made)
    assert bytes(item.deployment.status) == b'{"phase":"Ready"}'
    assert len(item.deployment.status) == len(b'{"phase":"Ready"}')


def test_who_follows_a_kind_is_told_once_what_came_changed_and_went() -> None:
    """Everything at first; then single changes and the differences of a list; nothing to nobody."""
    fed = Fed()
    made = deployment()
    store = fed.cache.stores[KindName.DEPLOYMENT]
    fed.put(KindName.DEPLOYMENT, made)
    assert store.news() == set()
    store.follow()
    assert (store.news(), store.news()) == ({CHAT}, set())
    fed.put(KindName.DEPLOYMENT, made, 2)
    fed.put(KindName.DEPLOYMENT, made, 2)
    assert store.news() == {CHAT}
    fresh = ObjectMap()
    store.collect(fed.item(KindName.DEPLOYMENT, deployment("other")), fresh)
    list(store.replace(fresh))
    assert store.news() == {CHAT, Key("team", "other")}
    fed.drop(KindName.DEPLOYMENT, deployment("other"))
    assert store.news() == {Key("team", "other")}
    fed.put(KindName.DEPLOYMENT, made, 3)
    store.unfollow()
    assert store.news() == set()


def test_a_newer_version_brings_no_second_copy_of_what_maps_and_indexes_hold() -> None:
    """A fleet whose every Pod changed is no larger than before: names, UIDs, labels and owners are those of the first version."""
    fed = Fed()
    member = pod(deployment(), "p").json
    fed.put(KindName.POD, member)
    store = fed.cache.stores[KindName.POD]
    first = store.get("team", "p")
    member["status"]["phase"] = "Running"
    fed.put(KindName.POD, member, 2)
    second = store.get("team", "p")
    assert (second.metadata.resource_version, second.status.phase) == ("2", "Running")
    for part in ("name", "uid", "labels", "owner_references"):
        assert getattr(second.metadata, part) is getattr(first.metadata, part), part
    member["metadata"]["labels"]["app.kubernetes.io/component"] = "moved"
    fed.put(KindName.POD, member, 3)
    assert store.get("team", "p").metadata.labels["app.kubernetes.io/component"] == "moved"
