"""Deployments as the fence meets them: free, bound to a scaler, left with what a scaler wrote, and beyond reading."""

from reviewing import BINDING, DECISION, deployment, role

FREE = deployment(role(replicas=2))
BOUND = FREE.bound(3).decided(2, sequence=4)
LEFT_OVER = BOUND.unbound()
UNREADABLE = BOUND.annotated(BINDING, '{"version":1')
REPLICAS = "spec.roles[0].replicas"
ON_BINDING, ON_DECISION = f"metadata.annotations[{BINDING}]", f"metadata.annotations[{DECISION}]"
