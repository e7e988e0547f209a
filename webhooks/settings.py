"""What admission may be told from outside: who a scaler is, and three switches of the operator.

Source: decisions D4 (writer identity), admission facts 3.5 and 3.8 (switches and their names).
"""

from collections.abc import Mapping
from typing import Any

from api.objects import Struct

DEFAULT_NAMESPACE = "modelwarden-system"
SCALER_ACCOUNT = "modeldeployment-scaler"
USERNAMES = "fence.scalerUsernames"


def default_scaler_usernames(namespace: str = DEFAULT_NAMESPACE) -> tuple[str, ...]:
    """The service account that a scaler runs under when nothing else is configured."""
    return (f"system:serviceaccount:{namespace}:{SCALER_ACCOUNT}",)


class AdmissionSettings(Struct, frozen=True):
    """The settings that the rules read; a value, so that a review is judged under one set of them."""

    scaler_usernames: tuple[str, ...] = default_scaler_usernames()
    instance_privileged_allowed: bool = False
    instance_host_path_volume_allowed: bool = False
    model_deployment_kv_cache_dtype_owned: bool = True

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> "AdmissionSettings":
        """Read the flat map of D8, keys as the pages spell them. Raises ValueError on a value of another type."""
        values: dict[str, Any] = {}
        for key, field in _SWITCHES.items():
            if key in flat:
                if not isinstance(flat[key], bool):
                    raise ValueError(f"setting {key} must be true or false, not {flat[key]!r}")
                values[field] = flat[key]
        if USERNAMES in flat:
            names = flat[USERNAMES]
            if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"setting {USERNAMES} must be a list of texts, not {names!r}")
            values["scaler_usernames"] = tuple(names)
        return cls(**values)


def parse_setting(text: str) -> tuple[str, Any]:
    """A `KEY=VALUE` of a command line as an entry of the flat map. Raises ValueError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is no KEY=VALUE")
    if key not in _SWITCHES and key != USERNAMES:
        raise ValueError(f"{key!r} is no setting of admission: {', '.join(sorted((*_SWITCHES, USERNAMES)))}")
    if key == USERNAMES:
        return key, [name for name in value.split(",") if name]
    return key, {"true": True, "false": False}.get(value, value)


_SWITCHES = {
    "instance-privileged-allowed": "instance_privileged_allowed",
    "instance-host-path-volume-allowed": "instance_host_path_volume_allowed",
    "model-deployment-kv-cache-dtype-owned": "model_deployment_kv_cache_dtype_owned",
}
