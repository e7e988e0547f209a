"""One request to change something, as every step of a write sees it."""

from dataclasses import dataclass, field

from local.callers import SYSTEM, Caller
from local.kinds import Served
from local.wire import JSON

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"


@dataclass(slots=True)
class Operation:
    """What is asked, by whom, under which options; warnings gather on the way."""

    served: Served
    kind: str = UPDATE
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    caller: Caller = SYSTEM
    dry_run: bool = False
    manager: str = "unknown"
    validation: str = "Warn"
    internal: bool = False  # the server's own housekeeping: no admission
    applied: bool = False  # server-side apply keeps its own field management
    options: JSON = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str]:
        """Where the object lies in its table."""
        return (self.namespace if self.served.namespaced else "", self.name)

    def options_object(self) -> JSON:
        """The options as an AdmissionReview carries them."""
        kind = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}[self.kind]
        return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **self.options}
