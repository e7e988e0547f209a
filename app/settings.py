"""One typed `Settings`: what can be told from outside, under the names that the pages spell (`fence.scalerUsernames`, `kueue`, …).

Precedence: flag, environment, file, what the Pod says of itself, default. A key that nobody knows is an error that names the nearest known
one: a setting misspelt in silence is a setting believed. `load` keeps where each value came from, for `mdctl config`.
"""

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.layers import CONFIG_VARIABLE, PREFIX, Layer, SettingsError, from_environment, from_file, from_pod
from certs.authority import Profile
from controller.settings import ControllerSettings, ObserverSettings
from controller.shards import MOST, parse_shard
from controller.snapshot import StatusSettings
from webhooks.settings import DEFAULT_NAMESPACE, AdmissionSettings, default_scaler_usernames

# A century: dates beyond the calendar are no dates.
MOST_DAYS = 36500

# How `load` hands its layers to pydantic-settings, which asks the class for its sources.
_LAYERS: ContextVar[tuple[Layer, ...]] = ContextVar("layers", default=())


class Settings(BaseSettings):
    """Every setting. A field's alias is its name outside; its description is its help."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, populate_by_name=False)

    namespace: str = Field(DEFAULT_NAMESPACE, alias="namespace", description="the namespace this service runs in")
    kubeconfig: str | None = Field(
        None, alias="kubeconfig", description="kubeconfig file; without it, $KUBECONFIG, ~/.kube/config, the Pod's account"
    )
    context: str | None = Field(None, alias="context", description="context of the kubeconfig")

    kueue: Literal["required", "absent"] = Field(
        "required", alias="kueue", description="absent: no Workload is read (no Kueue in this cluster)"
    )
    act: Literal["status", "retire"] = Field("status", alias="act", description="retire: the controller also performs retirements")
    reserved_namespaces: tuple[str, ...] = Field(
        ("gpustack-system",),
        alias="reservedNamespaces",
        description="namespaces that deliberately have no LocalQueue; a trailing * is a prefix",
    )
    watch_namespace: str | None = Field(None, alias="watchNamespace", description="look after this namespace only")

    scaler_usernames: tuple[str, ...] = Field(
        (), alias="fence.scalerUsernames", description="exact usernames that may write as a scaler; default: the account of this namespace"
    )
    instance_privileged_allowed: bool = Field(
        False, alias="instance-privileged-allowed", description="roles may ask for privileged containers"
    )
    instance_host_path_volume_allowed: bool = Field(
        False, alias="instance-host-path-volume-allowed", description="roles may mount host paths"
    )
    model_deployment_kv_cache_dtype_owned: bool = Field(
        True,
        alias="model-deployment-kv-cache-dtype-owned",
        description="--kv-cache-dtype belongs to the operator where a KV cache is declared",
    )

    serve_host: str = Field("0.0.0.0", alias="serve.host", description="address to listen on")  # noqa: S104  # a Pod is reached on its own address
    serve_port: int = Field(8443, alias="serve.port", ge=0, le=65535, description="HTTPS port; 0 takes a free one")
    serve_health_port: int = Field(
        0, alias="serve.healthPort", ge=0, le=65535, description="plain HTTP port for health and metrics; 0: none"
    )
    serve_keep_alive_seconds: int = Field(
        120, alias="serve.keepAliveSeconds", gt=90, description="idle connections live this long; API servers keep theirs 90 s"
    )
    serve_drain_seconds: float = Field(
        5.0, alias="serve.drainSeconds", ge=0, le=300, description="after a stop signal: not ready, but still answering, for this long"
    )

    serve_page: bool = Field(False, alias="serve.page", description="show every deployment's phase at /, to whoever reaches the port")

    serve_debug: bool = Field(False, alias="serve.debug", description="tell caches and queues at /debug/state, to loopback only")

    certs_source: Literal["secret", "files", "memory"] = Field(
        "secret",
        alias="certs.source",
        description="secret: self-made, shared by all replicas; files: another's (cert-manager); memory: self-made, one replica only",
    )
    certs_folder: Path = Field(
        Path("/var/run/modelwarden/certs"), alias="certs.folder", description="where tls.crt, tls.key and ca.crt are mounted (source files)"
    )
    certs_secret: str = Field("modelwarden-certs", alias="certs.secret", description="name of the Secret (source secret)")
    certs_service: str = Field("modelwarden", alias="certs.service", description="name of the Service that the certificate is for")
    certs_cluster_domain: str = Field("cluster.local", alias="certs.clusterDomain", description="the cluster's DNS domain")
    certs_extra_names: tuple[str, ...] = Field(
        (), alias="certs.extraNames", description="further DNS names and addresses of the certificate"
    )
    certs_authority_days: float = Field(3650, alias="certs.authorityDays", gt=0, le=MOST_DAYS, description="life of a self-made authority")
    certs_serving_days: float = Field(90, alias="certs.servingDays", gt=0, le=MOST_DAYS, description="life of a serving certificate")
    certs_publish: bool | None = Field(
        None,
        alias="certs.publish",
        description="keep the webhook configurations' caBundle equal; default: where the authority is self-made",
    )

    leader_elect: bool = Field(True, alias="leader.elect", description="only the Lease holder writes status")
    shards: int = Field(
        1, alias="shards", ge=1, le=MOST, description="split the fleet by UID into so many shards, a Lease each; all replicas need the same"
    )
    shard: str | None = Field(
        None, alias="shard", description="i/n, i from 0: of n shards ask for the i-th, whoever holds it; orphaned ones are taken as well"
    )

    leader_lease: str = Field("modelwarden", alias="leader.lease", description="name of the Lease")
    # Whole seconds, as the Lease carries them: what followers read has to be what the holder keeps to.
    leader_lease_seconds: int = Field(15, alias="leader.leaseSeconds", ge=1, le=3600, description="others may take over after this long")
    leader_renew_seconds: float = Field(
        10, alias="leader.renewSeconds", gt=0, le=3600, description="the holder gives up when it could not renew for this long"
    )
    leader_retry_seconds: float = Field(2, alias="leader.retrySeconds", gt=0, le=3600, description="between two tries")

    controller_workers: int = Field(4, alias="controller.workers", ge=1, le=256, description="deployments judged at once")
    controller_page_size: int = Field(500, alias="controller.pageSize", ge=1, le=5000, description="objects per page of a list")

    observers_enabled: bool = Field(True, alias="observers.enabled", description="ask engines and routers what only they know")
    observers_allow_local_addresses: bool = Field(
        False, alias="observers.allowLocalAddresses", description="also dial loopback and link-local addresses (laptops only)"
    )
    observers_concurrency: int = Field(16, alias="observers.concurrency", ge=1, le=1024, description="questions of one kind asked at once")

    otel_endpoint: str | None = Field(
        None, alias="otel.endpoint", description="send traces there, an OpenTelemetry collector's HTTP address; needs the extra otel"
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", alias="log.level", description="least severe level that is logged"
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", alias="log.format", description="auto: console on a terminal, JSON elsewhere"
    )

    @classmethod
    def settings_customise_sources(cls, settings_cls: type[BaseSettings], **_: Any) -> tuple[PydanticBaseSettingsSource, ...]:  # type: ignore[override]  # the base names its four built-in sources, of which we take none
        """The layers that `load` prepared, in their order, and nothing that pydantic-settings would read by itself."""
        return tuple(_LayerSource(settings_cls, layer) for layer in _LAYERS.get())

    @field_validator("reserved_namespaces", "scaler_usernames", "certs_extra_names", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """A text is a comma-separated or JSON list: the environment has no other form."""
        if not isinstance(value, str):
            return value
        text = value.strip()
        if text.startswith("["):
            try:
                return json.loads(text)
            except ValueError as error:
                raise ValueError("is no JSON list") from error
        return [part.strip() for part in text.split(",") if part.strip()]

    @field_validator("otel_endpoint")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if not value:
            return None
        try:
            parts = urlsplit(value)
            known = parts.scheme in {"http", "https"} and parts.hostname
        except ValueError:
            known = None
        if not known:
            raise ValueError("has to be an address like http://collector.observability:4318")
        return value

    @model_validator(mode="after")
    def _lease_figures(self) -> "Settings":
        if not self.leader_lease_seconds > self.leader_renew_seconds > self.leader_retry_seconds:
            raise ValueError("leader.leaseSeconds has to be greater than leader.renewSeconds, and that greater than leader.retrySeconds")
        return self

    @model_validator(mode="after")
    def _shard_figures(self) -> "Settings":
        if self.shard is not None:
            _, count = parse_shard(self.shard)
            if "shards" in self.model_fields_set and self.shards != count:
                raise ValueError(f"shard {self.shard} and shards {self.shards} tell two numbers of shards")
        if self.shard_count > 1 and not self.leader_elect:
            raise ValueError("shards want leader.elect: without Leases two replicas would write the same deployments")
        return self

    @property
    def shard_count(self) -> int:
        """Into how many shards the fleet is split, whichever setting tells it."""
        return parse_shard(self.shard)[1] if self.shard is not None else self.shards

    @property
    def publishes(self) -> bool:
        """Whether caBundles are ours to keep."""
        return self.certs_source != "files" if self.certs_publish is None else self.certs_publish

    def admission(self) -> AdmissionSettings:
        """What the rules read."""
        return AdmissionSettings(
            scaler_usernames=self.scaler_usernames,
            instance_privileged_allowed=self.instance_privileged_allowed,
            instance_host_path_volume_allowed=self.instance_host_path_volume_allowed,
            model_deployment_kv_cache_dtype_owned=self.model_deployment_kv_cache_dtype_owned,
        )

    def controller(self, identity: str) -> ControllerSettings:
        """What the controller is told; `identity` names this process in the Lease."""
        return ControllerSettings(
            status=StatusSettings(kueue=self.kueue, reserved_namespaces=self.reserved_namespaces, act=self.act),
            observers=ObserverSettings(
                enabled=self.observers_enabled,
                allow_local_addresses=self.observers_allow_local_addresses,
                concurrency=self.observers_concurrency,
            ),
            namespace=self.watch_namespace,
            identity=identity,
            leader_election=self.leader_elect,
            lease_name=self.leader_lease,
            lease_namespace=self.namespace,
            lease_duration=self.leader_lease_seconds,
            renew_deadline=self.leader_renew_seconds,
            retry_period=self.leader_retry_seconds,
            shards=self.shard_count,
            preferred_shard=parse_shard(self.shard)[0] if self.shard is not None else None,
            workers=self.controller_workers,
            page_size=self.controller_page_size,
        )

    def certificate(self) -> Profile:
        """What the self-made certificate says."""
        return Profile.of_service(
            self.certs_service,
            self.namespace,
            domain=self.certs_cluster_domain,
            extra=self.certs_extra_names,
            authority_life=timedelta(days=self.certs_authority_days),
            serving_life=timedelta(days=self.certs_serving_days),
        )


FIELDS: Mapping[str, FieldInfo] = {str(field.alias): field for field in Settings.model_fields.values()}
ATTRIBUTES: Mapping[str, str] = {str(field.alias): name for name, field in Settings.model_fields.items()}


def words(key: str) -> list[str]:
    """The words of a setting's name: `fence.scalerUsernames` is fence, scaler, usernames."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).replace(".", "-").lower().split("-")


def variable(key: str) -> str:
    """The setting's environment variable."""
    return PREFIX + "_".join(words(key)).upper()


def flag(key: str) -> str:
    """The setting's command-line flag."""
    return "--" + "-".join(words(key))


@dataclass(frozen=True, slots=True)
class Effective:
    """The settings, and for each name where its value came from."""

    settings: Settings
    origins: Mapping[str, str]

    def rows(self) -> list[tuple[str, Any, str]]:
        """Name, value and origin of every setting, by name."""
        dumped = self.settings.model_dump(mode="json", by_alias=True)
        return [(key, dumped[key], self.origins.get(key, "default")) for key in sorted(FIELDS)]


class _LayerSource(PydanticBaseSettingsSource):
    """A layer in pydantic-settings' own order of precedence."""

    def __init__(self, settings_cls: type[BaseSettings], layer: Layer) -> None:
        super().__init__(settings_cls)
        self._layer = layer

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """One value by its outside name."""
        return self._layer.values.get(str(field.alias)), str(field.alias), False

    def __call__(self) -> dict[str, Any]:
        """All values of the layer."""
        return dict(self._layer.values)


def load(*, config: Path | None = None, environ: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Effective:
    """The effective settings. `flags` holds only what was given, by setting name. Raises SettingsError with every fault found."""
    if config is None and environ.get(CONFIG_VARIABLE):
        config = Path(environ[CONFIG_VARIABLE])
    layers = [
        Layer(flags or {}, {key: f"flag {flag(key)}" for key in flags or {}}),
        from_environment(environ, {variable(key): key for key in FIELDS}),
        from_file(config, FIELDS) if config else Layer({}, {}),
        from_pod(environ),
    ]
    namespace = next((str(layer.values["namespace"]) for layer in layers if "namespace" in layer.values), DEFAULT_NAMESPACE)
    layers.append(Layer({"fence.scalerUsernames": default_scaler_usernames(namespace)}, {}))

    origins = {key: layer.origins[key] for layer in reversed(layers) for key in layer.values if key in layer.origins}
    handed = _LAYERS.set(tuple(layers))
    try:
        nothing: dict[str, Any] = {}  # all values come through the layers
        return Effective(Settings(**nothing), origins)
    except ValidationError as error:
        raise SettingsError("\n".join(_fault(fault, origins) for fault in error.errors())) from error
    finally:
        _LAYERS.reset(handed)


def _fault(fault: Any, origins: Mapping[str, str]) -> str:
    key = str(fault["loc"][0]) if fault["loc"] else ""
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"setting {key} ({origins.get(key, 'default')}): {message}" if key else message
