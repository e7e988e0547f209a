"""ElasticResize: does an elastic scale stand blocked or terminally refused? Written only for a deployment with an elasticEp role.

Source: seed "ElasticResize", status facts 4.9.
"""

from api.reasons import ELASTIC_RESIZE
from controller.snapshot import ElasticObservation
from controller.status.verdict import Verdict, verdict


def judge(width: int, seen: ElasticObservation | None) -> Verdict | None:
    """The verdict, or None where this pass did not read the record and the condition is left alone. `width` is the spec's."""
    if seen is None or (seen.record is None and seen.refusal is None):
        return None
    refusal = seen.refusal
    if refusal is not None and refusal.abandoned:
        text = refusal.message or f"The engine refused the scale {refusal.attempts} times."
        return verdict(ELASTIC_RESIZE, "ScaleRefused", text)
    if refusal is not None:
        said = f": {refusal.message}" if refusal.message else "."
        return verdict(ELASTIC_RESIZE, "NoRefusal", f"The engine refused a scale, which is tried again inside its bound{said}")
    if seen.record:
        return verdict(ELASTIC_RESIZE, "NoRefusal", "No scale stands refused.")
    asked = width if seen.desired is None else seen.desired
    if seen.known and seen.observed == asked == width:
        return verdict(ELASTIC_RESIZE, "NoRefusal", f"No scale stands refused; the live width is {width}.")
    observed = str(seen.observed) if seen.known and seen.observed is not None else "unknown"
    if not seen.known and seen.observed is not None:
        observed += f" (last seen: {seen.observed})"
    desired = f"Desired width {width}" + (f" (last asked for: {asked})" if asked != width else "")
    proof = f"; failed proof: {seen.proof}" if seen.proof else ""
    return verdict(ELASTIC_RESIZE, "WorldUnprovable", f"{desired}, observed width {observed}{proof}.")


def first() -> Verdict:
    """What stands where no pass has read the record yet."""
    return verdict(ELASTIC_RESIZE, "NotObserved", "No pass has read the resize record yet.")
