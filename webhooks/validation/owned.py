"""Arguments and variables that are the operator's: which, for whom, and how a spelling resolves to one.

A prefix of an owned key counts as the key without asking whether it is ambiguous: where the engine would refuse the line, we refuse first.
An exact spelling of another option of the engine is that option. Source: admission facts 3.5.
"""

from collections.abc import Callable, Iterable, Iterator

from engines.table import choose
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import RoleView, Subject

ARGUMENTS = {
    "vLLM": ("--kv-transfer-config", "--kv-events-config"),
    "SGLang": (
        "--hicache-storage-backend",
        "--hicache-storage-backend-extra-config",
        "--disaggregation-mode",
        "--disaggregation-transfer-backend",
        "--disaggregation-bootstrap-port",
    ),
}
VARIABLES = {
    "vLLM": frozenset({"MOONCAKE_CONFIG_PATH", "VLLM_MOONCAKE_BOOTSTRAP_PORT"}),
    "SGLang": frozenset(
        {
            "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
            "MOONCAKE_MASTER",
            "MOONCAKE_TE_META_DATA_SERVER",
            "MOONCAKE_PROTOCOL",
            "MOONCAKE_DEVICE",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE",
            "MOONCAKE_LOCAL_HOSTNAME",
            "MOONCAKE_TENANT_ID",
        }
    ),
}
REPLICA_VARIABLES = frozenset({"GPUSTACK_REPLICA_LEADER_ADDRESS", "GPUSTACK_REPLICA_SIZE", "GPUSTACK_MEMBER_INDEX"})
ARTIFACT_ARGUMENTS = {
    "vLLM": ("--model", "--revision", "--tokenizer-revision", "--download-dir"),
    "SGLang": ("--model-path", "--revision", "--download-dir"),
}
ARTIFACT_VARIABLES = frozenset({"HF_HOME", "HF_ENDPOINT", "HF_TOKEN"})
ARTIFACT_DIRECTORIES = ("/var/lib/gpustack/model", "/var/lib/gpustack/model-cache")
KV_CACHE_DTYPE = ("--kv-cache-dtype",)

_TAKE_OVER = "roles[i].command owns the whole line"


def resolve(engine: str, version: str | None, token: str, owned: Iterable[str]) -> str | None:
    """The owned key that a token means on that engine, or None."""
    if not token.startswith("--"):
        return None
    name = token.split("=", 1)[0]
    if engine == "vLLM":
        name = "--" + name[2:].split(".", 1)[0].replace("_", "-")
    if len(name) <= 2:
        return None
    keys = tuple(owned)
    if name in keys:
        return name
    key = next((key for key in keys if key.startswith(name)), None)
    if key is None:
        return None
    options = choose(engine, version).table.spellings
    other = options.get(name)
    return None if other is not None and other != options.get(key) else key


def _tokens(subject: Subject, view: RoleView, owned: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    heads = {key[:3] for key in owned}
    if view.heads.isdisjoint(heads):
        return
    engine = subject.spec.engine
    for position, token in enumerate(view.tokens):
        if token[:3] in heads:
            key = resolve(engine.name, engine.version, token, owned)
            if key is not None:
                yield position, token.split("=", 1)[0], key


def _argument(view: RoleView, found: tuple[int, str, str], engine: str, why: str = "") -> Problem:
    position, written, key = found
    means = f" ({key})" if written != key else ""
    return Problem(
        field=f"{view.path}.extraArgs[{position}]",
        value=written,
        said=f"{written}{means} is set by the operator on {engine}{why}",
        fix=_TAKE_OVER.replace("roles[i]", f"roles[{view.index}]"),
    )


@rule(
    "MD201",
    "OwnedArgument",
    "Arguments that wire the KV cache and its transfer are the operator's.",
    "spec.roles[i].extraArgs[j]",
    when="wiring",
    source="3.5",
)
def owned_argument(subject: Subject) -> Iterator[Problem]:
    """Judged beside a replaced command too; not again when an update left the arguments alone."""
    engine = subject.spec.engine.name
    keys = ARGUMENTS.get(engine, ())
    for view in subject.roles:
        if view.judges_arguments:
            for found in _tokens(subject, view, keys):
                yield _argument(view, found, engine)


@rule(
    "MD202",
    "OwnedVariable",
    "Variables that wire the replica and the KV cache are the operator's.",
    "spec.roles[i].env[j]",
    when="env",
    source="3.5",
)
def owned_variable(subject: Subject) -> Iterator[Problem]:
    """MOONCAKE_TENANT_ID names whose blocks are reused: a matter of security."""
    engine = subject.spec.engine.name
    owned = VARIABLES.get(engine, frozenset())
    return _variables(subject, lambda name: name in owned or name in REPLICA_VARIABLES, engine, "", lambda _: True)


def _variables(
    subject: Subject, owned: Callable[[str], bool], engine: str, why: str, judged: Callable[[RoleView], bool]
) -> Iterator[Problem]:
    for view in subject.roles:
        if not judged(view):
            continue
        for position, variable in enumerate(view.role.env):
            if owned(variable.name):
                yield Problem(
                    field=f"{view.path}.env[{position}]",
                    value=variable.name,
                    said=f"{variable.name} is set by the operator on {engine}{why}",
                )


@rule(
    "MD203",
    "ArtifactArgument",
    "With a model artifact, the arguments that say where weights come from are the operator's.",
    "spec.roles[i].extraArgs[j]",
    when="artifact",
    source="3.5",
)
def artifact_argument(subject: Subject) -> Iterator[Problem]:
    """Not on a role that replaces the command."""
    engine = subject.spec.engine.name
    if subject.spec.model.artifact_ref is None:
        return
    for view in subject.managed():
        if view.judges_arguments:
            for found in _tokens(subject, view, ARTIFACT_ARGUMENTS.get(engine, ())):
                yield _argument(view, found, engine, " when spec.model.artifactRef is set")


@rule(
    "MD204",
    "ArtifactVariable",
    "With a model artifact, the variables that say where weights come from are the operator's.",
    "spec.roles[i].env[j]",
    when="artifact",
    source="3.5",
)
def artifact_variable(subject: Subject) -> Iterator[Problem]:
    """Not on a role that replaces the command; proxies stay the user's."""
    if subject.spec.model.artifact_ref is None:
        return iter(())
    why = " when spec.model.artifactRef is set"
    return _variables(subject, ARTIFACT_VARIABLES.__contains__, subject.spec.engine.name, why, lambda view: not view.taken_over)


@rule(
    "MD205",
    "ArtifactMount",
    "With a model artifact, nothing is mounted at, inside or around its directories.",
    "spec.roles[i].additionalVolumes[j].mountPath",
    when="artifact",
    source="3.5",
)
def artifact_mount(subject: Subject) -> Iterator[Problem]:
    """On roles that replace the command too."""
    if subject.spec.model.artifact_ref is None:
        return
    for view in subject.roles:
        for position, volume in enumerate(view.role.additional_volumes):
            path = _normal(volume.mount_path)
            for reserved in ARTIFACT_DIRECTORIES:
                if path == reserved or path.startswith(reserved + "/") or reserved.startswith(path.rstrip("/") + "/"):
                    yield Problem(
                        field=f"{view.path}.additionalVolumes[{position}].mountPath",
                        value=volume.mount_path,
                        said=f"{reserved} holds the model artifact",
                    )
                    break


def _normal(path: str) -> str:
    """The path without empty, `.` and `..` segments."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


@rule(
    "MD206",
    "ServedModelName",
    "The served model name is the model's name, once, or not given.",
    "spec.roles[i].extraArgs",
    when="s-flags",
    source="3.5",
)
def served_model_name(subject: Subject) -> Iterator[Problem]:
    """An update that leaves the served names, the model and the presence of a command alone is let be."""
    model = subject.spec.model.name
    for view in subject.managed():
        if not view.judges_arguments:
            continue
        served = view.served_names(subject.spec)
        if served is None or served == (model,):
            continue
        if _served_before(subject, view, served):
            continue
        yield Problem(
            field=f"{view.path}.extraArgs",
            value=list(served),
            said=f"--served-model-name may only repeat the model's name {model!r}",
            fix="leave the flag out",
        )


def _served_before(subject: Subject, view: RoleView, served: tuple[str, ...]) -> bool:
    """Whether the stored role served those names already, of the same model and without a command of its own."""
    old, former = subject.old_spec, view.old
    if old is None or former is None or former.command or old.model.name != subject.spec.model.name:
        return False
    return RoleView(view.index, former, None, old).served_names(old) == served


@rule(
    "MD207",
    "KVCacheDtype",
    "With a KV cache, its data type is the operator's.",
    "spec.roles[i].extraArgs[j]",
    when="cache",
    source="3.5",
)
def kv_cache_dtype(subject: Subject) -> Iterator[Problem]:
    """Every spelling, on both engines, unless the setting gives it away."""
    if subject.spec.kv_cache is None or not subject.settings.model_deployment_kv_cache_dtype_owned or not subject.known_engine:
        return
    engine = subject.spec.engine.name
    for view in subject.managed():
        if view.judges_arguments:
            for found in _tokens(subject, view, KV_CACHE_DTYPE):
                yield _argument(view, found, engine, " when spec.kvCache is set")


RULES = (
    owned_argument,
    owned_variable,
    artifact_argument,
    artifact_variable,
    artifact_mount,
    served_model_name,
    kv_cache_dtype,
)
