"""What the running half of the controller is told. `app.settings` fills it; nothing here reads an environment."""

from dataclasses import dataclass, field

from controller.snapshot import StatusSettings


@dataclass(frozen=True, slots=True)
class ObserverSettings:
    """Which addresses may be asked, and how often. Seconds throughout.

    `enabled` False dials nobody: what only an observation can tell stays Unknown. `allow_local_addresses` lifts the refusal of loopback and
    link-local addresses; only the embedded cluster, whose Pods live on this machine, sets it.
    """

    enabled: bool = True
    allow_local_addresses: bool = False
    concurrency: int = 16
    router_period: float = 10.0
    cache_period: float = 30.0
    forward_period: float = 30.0
    drain_period: float = 2.0
    elastic_period: float = 30.0


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """`namespace` None watches all of them. `identity` names this process in the Lease and has to be unique.

    The three lease figures are client-go's: others may take over after `lease_duration`, the holder gives up when it could not renew for
    `renew_deadline`, and tries every `retry_period`. With more than one of `shards` each has a Lease of its own, named after `lease_name`;
    `preferred_shard` is the one that this process asks for whoever holds it.
    """

    status: StatusSettings = field(default_factory=StatusSettings)
    observers: ObserverSettings = field(default_factory=ObserverSettings)
    namespace: str | None = None
    identity: str = "modelwarden"
    leader_election: bool = True
    lease_name: str = "modelwarden"
    lease_namespace: str = "modelwarden-system"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    shards: int = 1
    preferred_shard: int | None = None
    workers: int = 4
    page_size: int = 500
