"""The readiness gates and listen flags of a replica Pod, as a JSON patch. Pure: the deployment is handed in. Source: decisions D3."""

from webhooks.gates.pod import Container, PodShape, gate_patch

__all__ = ["Container", "PodShape", "gate_patch"]
