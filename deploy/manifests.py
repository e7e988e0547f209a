"""An installation's objects, from the same files that kustomize reads, fitted to a namespace, an image and the age of an API server.

kustomize is for people who keep their manifests in Git; `mdctl install` needs no other program. Both read `deploy/base` and
`deploy/components`; a test holds that they give the same objects.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import yaml

from api.crd import companions, owned
from api.crd.variants import fitted

NAMESPACE: Final = "modelwarden-system"
DISRUPTION_BUDGETS_SINCE: Final = (1, 21)
NEWEST: Final = (1, 99)

Manifest = dict[str, Any]

# Components that only add objects and environment; those that patch more (cert-manager) need kustomize.
_ENVIRONMENT: Final = {"kueue-absent": ("MODELWARDEN_KUEUE", "absent"), "retire": ("MODELWARDEN_ACT", "retire")}


@dataclass(frozen=True, slots=True)
class Options:
    """How an installation differs from the files. `version` is the API server's (major, minor)."""

    namespace: str = NAMESPACE
    image: str | None = None
    kueue: str = "required"
    act: str = "status"
    shards: int = 1
    network_policy: bool = False
    companions: bool = False
    version: tuple[int, int] = NEWEST


def manifests(options: Options) -> list[Manifest]:
    """Every object, in an order in which they can be applied: the namespace, the definitions, then the rest, the webhooks last."""
    chosen = ["pdb"] if options.version >= DISRUPTION_BUDGETS_SINCE else []
    chosen += ["kueue-absent"] if options.kueue == "absent" else []
    chosen += ["retire"] if options.act == "retire" else []
    chosen += ["shards"] if options.shards > 1 else []
    chosen += ["networkpolicy"] if options.network_policy else []

    environment = _ENVIRONMENT | {"shards": ("MODELWARDEN_SHARDS", str(options.shards))}
    definitions = owned() + (companions() if options.companions else [])
    objects = [*_objects("base"), *(obj for name in chosen for obj in _objects(f"components/{name}"))]
    objects += [fitted(definition, options.version) for definition in definitions]
    for obj in objects:
        if obj["kind"] == "Deployment":
            container = obj["spec"]["template"]["spec"]["containers"][0]
            container["image"] = options.image or container["image"]
            for name in chosen:
                if name in environment:
                    variable, value = environment[name]
                    container["env"].append({"name": variable, "value": value})
    return sorted((_renamed(obj, options.namespace) for obj in objects), key=_rank)


def _objects(folder: str) -> Iterator[Manifest]:
    """The objects of a folder's own files, as its kustomization lists them."""
    here = files("deploy").joinpath(*folder.split("/"))
    listing = yaml.safe_load(here.joinpath("kustomization.yaml").read_text(encoding="utf-8"))
    for name in listing.get("resources") or ():
        if name.endswith(".yaml"):
            yield from (obj for obj in yaml.safe_load_all(here.joinpath(name).read_text(encoding="utf-8")) if obj)


def _renamed(value: Any, namespace: str) -> Any:
    """The namespace's name exchanged wherever it stands as a value of its own. No text of what we install holds it as a part."""
    if namespace == NAMESPACE:
        return value
    if isinstance(value, dict):
        return {name: _renamed(item, namespace) for name, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, namespace) for item in value]
    return namespace if value == NAMESPACE else value


_ORDER: Final = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_LAST: Final = ("Deployment", "PodDisruptionBudget", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def _rank(obj: Manifest) -> tuple[int, str]:
    kind = obj["kind"]
    if kind in _ORDER:
        return _ORDER.index(kind), ""
    return (100 + _LAST.index(kind) if kind in _LAST else 50), kind


def to_yaml(objects: Iterable[Manifest]) -> str:
    """The objects as one YAML stream."""
    return yaml.dump_all(list(objects), Dumper=_Plain, sort_keys=False, width=140, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """Repeats shared values instead of naming them: anchors are legal YAML that not every tool reads."""

    def ignore_aliases(self, data: object) -> bool:
        """Always."""
        return True
