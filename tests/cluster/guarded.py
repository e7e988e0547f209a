"""A namespace whose writes are reviewed by webhooks of a check."""

from typing import Any

from checklist import GROUP, WIDGETS, config_map, serve_widgets, widget
from clusterkit import HookServer, TestCluster

JSON = dict[str, Any]
ROOT = "/apis/admissionregistration.k8s.io/v1"
ALLOW: JSON = {"allowed": True}


def allow(request: JSON) -> JSON:
    """Whatever it is."""
    del request
    return ALLOW


class Guarded:
    """A namespace with webhooks on its ConfigMaps and Widgets."""

    def __init__(self, cluster: TestCluster, space: str, server: HookServer) -> None:
        self.cluster = cluster
        self.space = space
        self.server = server
        self.maps = f"/api/v1/namespaces/{space}/configmaps"
        self.widgets = f"{WIDGETS}/namespaces/{space}/widgets"

    @classmethod
    async def make(cls, cluster: TestCluster) -> "Guarded":
        """A fresh one."""
        await serve_widgets(cluster)
        return cls(cluster, await cluster.namespace(), await cluster.hooks())

    def hook(self, config: JSON, *, resources: tuple[str, ...] = ("configmaps",), **more: Any) -> JSON:
        """One webhook entry for this namespace."""
        group = GROUP if resources[0].startswith("widgets") else ""
        rule = {"operations": more.pop("operations", ["*"]), "apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources)}
        return {
            "name": f"hook.{self.space}.example.com",
            "clientConfig": config,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"modelwarden.test": self.space}},
            "timeoutSeconds": 5,
        } | more

    async def arm(self, *hooks: JSON, mutating: bool = False, name: str = "c", probe: bool = True) -> None:
        """Store a configuration and wait until the server calls its first hook."""
        plural = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
        await self.cluster.keep(f"{ROOT}/{plural}", {"metadata": {"name": f"{name}-{self.space}"}, "webhooks": list(hooks)})
        if not probe:
            return
        path = hooks[0]["clientConfig"]["url"].removeprefix(self.server.url)
        resources = hooks[0]["rules"][0]["resources"][0]

        async def called() -> bool:
            target, body = (self.widgets, widget("probe")) if resources.startswith("widgets") else (self.maps, config_map("probe"))
            body["metadata"]["labels"] = {"probe": "yes"}
            await self.cluster.wire("POST", target, body, dryRun="All")
            return path in self.server.probed

        await self.cluster.eventually(called, "the webhook is never called")
