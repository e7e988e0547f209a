"""The official client's own informers with typed models, doing the representative part of the job: follow ModelDeployments and Pods, and patch
a status that says how many Pods of each role are ready and which.

Run with $KUBECONFIG. One informer a kind, as the `kubernetes` package offers them (a thread each, the whole list at once); handlers put keys
into a set, and one loop computes and patches, with the official API class.
"""

import functools
import threading
from collections import defaultdict
from types import SimpleNamespace

from kubernetes import client, config
from kubernetes.informer import SharedInformer

INSTANCE = "app.kubernetes.io/instance"
ROLE = "app.kubernetes.io/component"
ORDINAL = "modeldeployment.gpustack.ai/pod-ordinal"
GROUP = ("worker.gpustack.ai", "v1")

pods = defaultdict(dict)  # deployment key -> Pod UID -> V1Pod
deployments = {}
dirty = {}
written = {}
change = threading.Condition()


def ask(key):
    with change:
        dirty[key] = True
        change.notify()


def pod_seen(pod):
    key = (pod.metadata.namespace, pod.metadata.labels[INSTANCE])
    pods[key][pod.metadata.uid] = pod
    ask(key)


def deployment_seen(item):
    key = (item["metadata"]["namespace"], item["metadata"]["name"])
    deployments[key] = item
    ask(key)


def readiness(pod):
    return next((c.status for c in (pod.status.conditions or ()) if c.type == "Ready"), "Unknown")


def status_of(key):
    roles = []
    item = deployments[key]
    for role in item["spec"]["roles"]:
        own = [pod for pod in list(pods[key].values()) if pod.metadata.labels.get(ROLE) == role["name"]]
        own.sort(key=lambda pod: int(pod.metadata.labels.get(ORDINAL, 0)))
        groups = [
            {
                "ordinal": int(pod.metadata.labels.get(ORDINAL, 0)),
                "members": [{"name": pod.metadata.name, "uid": pod.metadata.uid, "seat": 0, "ready": readiness(pod)}],
            }
            for pod in own
        ]
        ready = sum(readiness(pod) == "True" for pod in own)
        roles.append({"name": role["name"], "desired": role["replicas"], "ready": ready, "groups": groups})
    whole = all(role["ready"] >= role["desired"] for role in roles)
    return {"observedGeneration": item["metadata"]["generation"], "phase": "Ready" if whole else "Degraded", "roles": roles}


def main():
    config.load_kube_config()
    api, custom = client.CoreV1Api(), client.CustomObjectsApi()

    @functools.wraps(custom.list_cluster_custom_object)  # the watch reads the return type out of the docstring
    def listed(**options):
        found = custom.list_cluster_custom_object(*GROUP, "modeldeployments", **options)
        return SimpleNamespace(items=found["items"], metadata=SimpleNamespace(**{"resource_version": found["metadata"]["resourceVersion"]})) \
            if isinstance(found, dict) else found

    def name_of(item):
        return f"{item['metadata']['namespace']}/{item['metadata']['name']}"

    podding = SharedInformer(api.list_pod_for_all_namespaces, label_selector="app.kubernetes.io/name=model-deployment")
    deploying = SharedInformer(listed, key_func=name_of)
    for informer, handler in ((podding, pod_seen), (deploying, deployment_seen)):
        for kind in ("ADDED", "MODIFIED"):
            informer.add_event_handler(kind, handler)
        informer.start()
    while True:
        with change:
            while not dirty:
                change.wait()
            key = next(iter(dirty))
            del dirty[key]
        if key not in deployments:
            continue
        status = status_of(key)
        if written.get(key) == status:
            continue
        custom.patch_namespaced_custom_object_status(*GROUP, key[0], "modeldeployments", key[1], {"status": status})
        written[key] = status


if __name__ == "__main__":
    main()
