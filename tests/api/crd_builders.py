"""Fluent builders of the two kinds, as a person would write them: only what is given, no defaults."""

import copy
from typing import Any, Self


class DeploymentBuilder:
    """A ModelDeployment of vLLM with no role yet."""

    def __init__(self, name: str = "qwen", engine: str = "vLLM") -> None:
        self._doc: dict[str, Any] = {
            "apiVersion": "worker.gpustack.ai/v1",
            "kind": "ModelDeployment",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"model": {"name": "m"}, "engine": {"name": engine, "version": "0.29.0"}, "roles": []},
        }

    def role(self, role: str = "server", kind: str | None = None, **fields: Any) -> Self:
        """Add a role."""
        entry: dict[str, Any] = {"name": role, "instanceType": "h20", **fields}
        if kind is not None:
            entry["kind"] = kind
        self._doc["spec"]["roles"].append(entry)
        return self

    def router(self, router: str = "llm-d-router", **fields: Any) -> Self:
        """Put a router in front."""
        self._doc["spec"]["router"] = {"name": router, **fields}
        return self

    def spec(self, **fields: Any) -> Self:
        """Set members of the spec; None removes one."""
        for key, value in fields.items():
            if value is None:
                self._doc["spec"].pop(key, None)
            else:
                self._doc["spec"][key] = value
        return self

    def unversioned(self) -> Self:
        """Leave the engine's version out."""
        del self._doc["spec"]["engine"]["version"]
        return self

    def cached(self, binding: str = "shared") -> Self:
        """Attach a KV cache."""
        return self.spec(kvCache={"poolRef": {"name": binding}})

    def build(self) -> dict[str, Any]:
        """The document."""
        return copy.deepcopy(self._doc)


class ScalerBuilder:
    """A complete ModelDeploymentScaler of one role."""

    def __init__(self) -> None:
        self._doc: dict[str, Any] = {
            "apiVersion": "worker.gpustack.ai/v1",
            "kind": "ModelDeploymentScaler",
            "metadata": {"name": "s", "namespace": "team-a"},
            "spec": {
                "targetRef": {"name": "qwen"},
                "roles": [{"name": "server", "maxReplicas": 4}],
                "algorithm": {"type": "Proportional", "proportional": {"metric": "QueueDepth"}},
            },
        }

    def spec(self, **fields: Any) -> Self:
        """Set members of the spec."""
        self._doc["spec"].update(fields)
        return self

    def role(self, role: str, low: int, high: int) -> Self:
        """Replace the bounds."""
        return self.spec(roles=[{"name": role, "minReplicas": low, "maxReplicas": high}])

    def proportional(self, **fields: Any) -> Self:
        """Set members of the algorithm's block."""
        self._doc["spec"]["algorithm"]["proportional"].update(fields)
        return self

    def build(self) -> dict[str, Any]:
        """The document."""
        return copy.deepcopy(self._doc)


def deployment(name: str = "qwen", engine: str = "vLLM") -> DeploymentBuilder:
    """A deployment without roles."""
    return DeploymentBuilder(name, engine)


def server(name: str = "qwen", engine: str = "vLLM", **fields: Any) -> DeploymentBuilder:
    """A deployment of one Server role."""
    return DeploymentBuilder(name, engine).role(**fields)


def split(engine: str = "vLLM", **fields: Any) -> DeploymentBuilder:
    """A prefill/decode pair behind llm-d-router."""
    return DeploymentBuilder(engine=engine).role("prefill", "Prefill", **fields).role("decode", "Decode").router()


def scaler() -> ScalerBuilder:
    """A complete scaler."""
    return ScalerBuilder()
