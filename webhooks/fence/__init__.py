"""The single-writer fence: two annotations say who owns the replica counts, and this package says who may write what.

Pure: it gets both sides of a write, the writer's name and, where it asked for it, the scaler object. Source: seed "Scaler annotations",
admission facts 1.3-1.4, decisions D4.
"""

from webhooks.fence.judge import FenceRequest, Scaler, Verdict, judge, scaler_to_read, target_of
from webhooks.fence.payloads import Binding, Decision, InvalidPayloadError, digest_of, read_binding, read_decision
from webhooks.fence.words import Target, Violation

__all__ = [
    "Binding",
    "Decision",
    "FenceRequest",
    "InvalidPayloadError",
    "Scaler",
    "Target",
    "Verdict",
    "Violation",
    "digest_of",
    "judge",
    "read_binding",
    "read_decision",
    "scaler_to_read",
    "target_of",
]
