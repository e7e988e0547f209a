"""Which resources are served: the built-in ones as a table, and the ones that CustomResourceDefinitions add.

A `Served` is one version of one resource. All versions of a resource share one storage table, named by (group, plural).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from local.wire import JSON

CRUD = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; `path` is a JSON path."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """One served version of a resource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    columns: tuple[Column, ...] = ()
    schema: JSON | None = field(default=None, compare=False)
    storage_version: str = ""
    custom: bool = False
    deprecation: str | None = None
    selectable: tuple[str, ...] = ()
    generation: bool = True
    unconditional_update: bool = True
    creates_on_update: bool = False
    tells_deleted: bool = False

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_api_version(self) -> str:
        """The apiVersion that stored bytes carry."""
        version = self.storage_version or self.version
        return f"{self.stored_group}/{version}" if self.stored_group else version

    @property
    def table(self) -> tuple[str, str]:
        """Name of the storage table."""
        return (self.stored_group, self.plural)

    @property
    def stored_group(self) -> str:
        """The group under which the objects lie; Events of both groups are the same objects."""
        return "" if self.group == "events.k8s.io" else self.group

    @property
    def lists_as(self) -> str:
        """The list's kind."""
        return self.list_kind or f"{self.kind}List"

    @property
    def status_kept_apart(self) -> bool:
        """Whether a plain write leaves the status alone."""
        return "status" in self.subresources

    @property
    def verbs(self) -> tuple[str, ...]:
        """What discovery lists; nobody deletes all namespaces at once."""
        whole = self.custom or self.kind != "Namespace"
        return CRUD if whole else tuple(verb for verb in CRUD if verb != "deletecollection")

    @property
    def root(self) -> str:
        """The path below which this group and version lives."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def _row(
    api: str,
    plural: str,
    kind: str,
    short: str = "",
    subresources: str = "",
    *,
    cluster: bool = False,
    generation: bool = False,
    strict: bool = False,
) -> Served:
    group, _, version = api.rpartition("/")
    return Served(
        group,
        version,
        plural,
        kind,
        namespaced=not cluster,
        singular=kind.lower(),
        short=tuple(short.split()),
        categories=("all",) if kind in {"Pod", "Service", "Deployment", "ReplicaSet"} else (),
        subresources=frozenset(subresources.split()),
        generation=generation,
        unconditional_update=not strict,
        creates_on_update=kind in _CREATED_BY_UPDATE,
        tells_deleted=kind in _TOLD_WHEN_DELETED,
        selectable=FIELDS.get(kind, ()),
    )


# A PUT of an object that is not there makes it.
_CREATED_BY_UPDATE = frozenset({"Lease", "Event", "Endpoints", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})

# A DELETE that is done at once answers with what was deleted, and not with a Status.
_TOLD_WHEN_DELETED = frozenset({"Pod", "PersistentVolumeClaim", "ServiceAccount"})

# Fields beyond metadata.name and metadata.namespace that a field selector may name.
FIELDS: dict[str, tuple[str, ...]] = {
    "Pod": ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP"),
    "Event": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "type",
    ),
    "Secret": ("type",),
    "Namespace": ("status.phase",),
    "Node": ("spec.unschedulable",),
}

BUILT_IN: tuple[Served, ...] = (
    _row("v1", "namespaces", "Namespace", "ns", "status", cluster=True),
    _row("v1", "pods", "Pod", "po", "status"),
    _row("v1", "services", "Service", "svc", "status"),
    _row("v1", "secrets", "Secret"),
    _row("v1", "configmaps", "ConfigMap", "cm"),
    _row("v1", "events", "Event", "ev"),
    _row("events.k8s.io/v1", "events", "Event", "ev"),
    _row("v1", "serviceaccounts", "ServiceAccount", "sa", "token"),
    _row("v1", "endpoints", "Endpoints", "ep"),
    _row("v1", "nodes", "Node", "no", "status", cluster=True),
    _row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "status"),
    _row("apps/v1", "deployments", "Deployment", "deploy", "status", generation=True),
    _row("apps/v1", "replicasets", "ReplicaSet", "rs", "status", generation=True),
    _row("coordination.k8s.io/v1", "leases", "Lease", strict=True),
    _row("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "status", generation=True),
    _row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol", generation=True),
    _row("rbac.authorization.k8s.io/v1", "roles", "Role"),
    _row("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
    _row("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", cluster=True),
    _row("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", cluster=True),
    _row(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        cluster=True,
        generation=True,
    ),
    _row("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", cluster=True, generation=True),
    _row(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd crds",
        "status",
        cluster=True,
        generation=True,
        strict=True,
    ),
)

NAMESPACES, PODS = BUILT_IN[0], BUILT_IN[1]
SERVICE_ACCOUNTS = next(row for row in BUILT_IN if row.plural == "serviceaccounts")
SERVICES = next(row for row in BUILT_IN if row.plural == "services")
CRDS = BUILT_IN[-1]
WEBHOOK_CONFIGURATIONS = frozenset({"validatingwebhookconfigurations", "mutatingwebhookconfigurations"})


class Registry:
    """Every served resource, by path parts and by storage table."""

    def __init__(self, rows: Iterable[Served] = BUILT_IN) -> None:
        self._rows: dict[tuple[str, str, str], Served] = {(row.group, row.version, row.plural): row for row in rows}
        self.serial = 0

    def __iter__(self) -> Iterator[Served]:
        return iter(self._rows.values())

    def get(self, group: str, version: str, plural: str) -> Served | None:
        """The resource served there, or None."""
        return self._rows.get((group, version, plural))

    def versions(self, group: str, plural: str) -> list[Served]:
        """Every served version of a resource."""
        return [row for row in self._rows.values() if row.table == (group, plural)]

    def by_table(self, table: tuple[str, str]) -> Served | None:
        """Some served version of a table, the storage one where it is served."""
        rows = self.versions(*table)
        return next((row for row in rows if row.version == row.storage_version), rows[0] if rows else None)

    def replace(self, group: str, plural: str, rows: Iterable[Served]) -> None:
        """Serve exactly these versions of a resource from now on."""
        self._rows = {key: row for key, row in self._rows.items() if row.table != (group, plural)}
        for row in rows:
            self._rows[row.group, row.version, row.plural] = row
        self.serial += 1

    def groups(self) -> dict[str, list[str]]:
        """Group to its versions, the preferred first."""
        out: dict[str, list[str]] = {}
        for row in self._rows.values():
            versions = out.setdefault(row.group, [])
            if row.version not in versions:
                versions.append(row.version)
        for versions in out.values():
            versions.sort(key=version_order)
        return out


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort key: GA before beta before alpha, the higher number first, as the API server orders versions."""
    rest = version.removeprefix("v")
    for rank, word in ((1, "beta"), (2, "alpha")):
        major, found, minor = rest.partition(word)
        if found and major.isdigit() and minor.isdigit():
            return (rank, -int(major), -int(minor), version)
    return (0, -int(rest), 0, version) if rest.isdigit() else (3, 0, 0, version)
