"""The CustomResourceDefinitions, as data. `deploy/crds/*.yaml` is generated from here and tested to be current.

One source: what a field is called, its bounds and its meaning stand here; `api.objects` and `api.status` project from it, and a test holds
that they name nothing that is not here.
"""

from functools import cache
from typing import Any, Final

from api.crd.companions import companions
from api.crd.deployment import model_deployment
from api.crd.scaler import model_deployment_scaler

# The files of deploy/crds: ours, and the minimal ones of kinds that we only read.
OWNED_FILE: Final = "modelwarden.yaml"
COMPANIONS_FILE: Final = "companions.yaml"


def owned() -> list[dict[str, Any]]:
    """The definitions of the two kinds that are ours."""
    return [model_deployment(), model_deployment_scaler()]


def files() -> dict[str, list[dict[str, Any]]]:
    """Every definition by the file that carries it."""
    return {OWNED_FILE: owned(), COMPANIONS_FILE: companions()}


@cache
def schema_of(kind: str) -> dict[str, Any]:
    """The `openAPIV3Schema` of a kind, one shared value: read it, do not change it. Raises KeyError for one that no definition has."""
    for definition in owned() + companions():
        if definition["spec"]["names"]["kind"] == kind:
            schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            return schema
    raise KeyError(kind)
