"""What a rule looks at: both sides of a write, the settings, the objects that were looked up, and each role beside its former self.

Readings of an engine's command line are made once per role and only when a rule asks. Arguments that an update leaves as they were are not
judged again (decisions D5): `RoleView.judges_arguments` is that ratchet.
"""

from collections.abc import Iterator, Mapping

import msgspec

from api.objects import InstanceType, KVCachePool, KVCachePoolBinding, ModelDeploymentSpec, Role
from engines.facade import RoleReading
from engines.table import ENGINES
from webhooks.readings import read_line
from webhooks.settings import AdmissionSettings
from webhooks.validation.features import features_of


def expanded(spec: ModelDeploymentSpec, role: Role) -> tuple[str, ...]:
    """A role's extra arguments after the kubelet's expansion from the role's own variables."""
    return read_line(spec.engine.name, spec.engine.version, role.extra_args, role.env, role.ports).reading.argv


class RoleView:
    """A role of the new object, its place, and the role of that name in the old one."""

    __slots__ = (
        "_reading",
        "heads",
        "index",
        "judges_arguments",
        "judges_line",
        "old",
        "path",
        "ports_changed",
        "role",
        "taken_over",
        "tokens",
    )

    def __init__(self, index: int, role: Role, old: Role | None, spec: ModelDeploymentSpec, *, engine_kept: bool = True) -> None:
        self.index = index
        self.role = role
        self.old = old
        self.path = f"spec.roles[{index}]"
        self.taken_over = bool(role.command)
        # The ratchets: the written arguments alone, and everything that the reading of the line depends on.
        self.judges_arguments = old is None or role.extra_args != old.extra_args or role.command != old.command
        self.judges_line = self.judges_arguments or old is None or role.env != old.env or not engine_kept
        self.ports_changed = old is None or role.ports != old.ports
        self._reading: RoleReading | None = None
        # The extra arguments as the engine gets them: a $(VAR) may be any token. Positions are those of what was written.
        self.tokens = role.extra_args
        if "$" in "".join(role.extra_args) and spec.engine.name in ENGINES:
            self.tokens = expanded(spec, role)
            self.judges_arguments = self.judges_line
        # How the tokens begin: most rules see from it that no token can be theirs.
        heads = frozenset([token[:3] for token in self.tokens])
        if role.command:
            heads = heads.union([token[:3] for token in role.command])
            if "$" in "".join(role.command):
                heads |= {"--s", "--p"}
        self.heads = heads

    def reading(self, spec: ModelDeploymentSpec) -> RoleReading:
        """The role's one stream of arguments as its engine reads it: the command where the role has one, else the extra arguments."""
        if self._reading is None:
            role = self.role
            self._reading = read_line(spec.engine.name, spec.engine.version, role.command or role.extra_args, role.env, role.ports)
        return self._reading

    def served_names(self, spec: ModelDeploymentSpec) -> tuple[str, ...] | None:
        """The values of the last `--served-model-name`, or None without one, or on an engine that nobody knows."""
        if "--s" not in self.heads or spec.engine.name not in ENGINES:
            return None
        given = self.reading(spec).option("served_model_name")
        return None if given is None else given.values


class Fabric(msgspec.Struct, frozen=True, gc=False):
    """The KV cache as the references of the deployment resolve: None where an object does not exist."""

    binding: KVCachePoolBinding | None = None
    pool: KVCachePool | None = None


class Subject:
    """One write under judgement."""

    __slots__ = (
        "fabric",
        "features",
        "kinds",
        "known_engine",
        "name",
        "old_spec",
        "roles",
        "router_kept",
        "settings",
        "spec",
        "types",
    )

    def __init__(
        self,
        spec: ModelDeploymentSpec,
        old_spec: ModelDeploymentSpec | None = None,
        *,
        settings: AdmissionSettings,
        name: str = "",
    ) -> None:
        self.settings = settings
        self.name = name
        self.types: Mapping[str, InstanceType | None] = {}
        self.fabric: Fabric | None = None
        self.spec = spec
        self.old_spec = old_spec
        self.router_kept = old_spec is not None and old_spec.router == spec.router
        former = {role.name: role for role in old_spec.roles} if old_spec else {}
        kept = old_spec is None or old_spec.engine.name == spec.engine.name
        self.roles = tuple([RoleView(index, role, former.get(role.name), spec, engine_kept=kept) for index, role in enumerate(spec.roles)])
        self.known_engine = spec.engine.name in ENGINES
        self.kinds = frozenset([role.effective_kind for role in spec.roles])
        self.features = features_of(self)

    def beside(self, types: Mapping[str, InstanceType | None], fabric: Fabric | None = None) -> "Subject":
        """The same write beside objects that were read for one review: what was found out about the write itself is shared."""
        # By hand: the general way of copying costs ten times as much, on every review.
        other = Subject.__new__(Subject)
        other.settings, other.name, other.spec, other.old_spec = self.settings, self.name, self.spec, self.old_spec
        other.router_kept, other.roles, other.known_engine = self.router_kept, self.roles, self.known_engine
        other.kinds, other.features = self.kinds, self.features
        other.types, other.fabric = types, fabric
        return other

    def managed(self) -> Iterator[RoleView]:
        """Roles whose command line is the operator's."""
        return (view for view in self.roles if not view.taken_over)
