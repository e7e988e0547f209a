"""Discovery: what kubectl and every client library ask first. Both forms, the old group by group one and the aggregated one."""

from local.kinds import Registry, version_order
from local.wire import JSON

VERSION: JSON = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0+modelwarden.embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "python/asyncio",
}

# Kinds that are asked and never stored.
REVIEWS: tuple[tuple[str, str, str], ...] = (
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
)
_STATUS_VERBS = ("get", "patch", "update")


def core_versions() -> JSON:
    """`/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group_versions(registry: Registry) -> dict[str, list[str]]:
    groups = registry.groups()
    for group, _, _ in REVIEWS:
        groups.setdefault(group, ["v1"])
    return groups


def group(registry: Registry, name: str) -> JSON | None:
    """`/apis/<group>`, or None for an unknown group."""
    versions = _group_versions(registry).get(name)
    if not versions or not name:
        return None
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in sorted(versions, key=version_order)]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": listed, "preferredVersion": listed[0]}


def groups(registry: Registry) -> JSON:
    """`/apis`."""
    found = [group(registry, name) for name in sorted(_group_versions(registry)) if name]
    for entry in found:
        if entry is not None:
            del entry["kind"], entry["apiVersion"]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resources(registry: Registry, group_name: str, version: str) -> JSON | None:
    """`/api/v1` or `/apis/<group>/<version>`, or None for what is not served."""
    out: list[JSON] = []
    for row in registry:
        if (row.group, row.version) != (group_name, version):
            continue
        entry: JSON = {
            "name": row.plural,
            "singularName": row.singular,
            "namespaced": row.namespaced,
            "kind": row.kind,
            "verbs": list(row.verbs),
        }
        if row.short:
            entry["shortNames"] = list(row.short)
        if row.categories:
            entry["categories"] = list(row.categories)
        out.append(entry)
        for sub in sorted(row.subresources):
            verbs = ["create"] if sub == "token" else list(_STATUS_VERBS)
            kind = "TokenRequest" if sub == "token" else row.kind
            out.append({"name": f"{row.plural}/{sub}", "singularName": "", "namespaced": row.namespaced, "kind": kind, "verbs": verbs})
    if version == "v1":
        for review_group, plural, kind in REVIEWS:
            if review_group == group_name:
                out.append({"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["create"]})
    if not out:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group_name}/{version}" if group_name else version,
        "resources": out,
    }


def aggregated(registry: Registry, *, core: bool, version: str) -> JSON:
    """The aggregated form of `/api` or `/apis`."""
    items = []
    for name, versions in sorted(_group_versions(registry).items()):
        if bool(name) is core:
            continue
        listed = [
            {"version": each, "freshness": "Current", "resources": _aggregated_resources(registry, name, each)}
            for each in sorted(versions, key=version_order)
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": listed})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}, "items": items}


def _aggregated_resources(registry: Registry, group_name: str, version: str) -> list[JSON]:
    plain = resources(registry, group_name, version) or {"resources": []}
    out: dict[str, JSON] = {}
    for entry in plain["resources"]:
        name, _, sub = entry["name"].partition("/")
        kind = {"group": group_name, "version": version, "kind": entry["kind"]}
        if sub:
            out[name].setdefault("subresources", []).append({"subresource": sub, "responseKind": kind, "verbs": entry["verbs"]})
            continue
        out[name] = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if entry["namespaced"] else "Cluster",
            "singularResource": entry["singularName"],
            "verbs": entry["verbs"],
        }
        for key in ("shortNames", "categories"):
            if key in entry:
                out[name][key] = entry[key]
    return list(out.values())
