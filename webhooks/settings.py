"""What admission may be told from outside: who a scaler is, and three switches of the operator.

Source: decisions D4 (writer identity), admission facts 3.5 and 3.8 (switches and their names).
"""

from collections.abc import Mapping
from typing import Any

from api.objects import Struct

DEFAULT_NAMESPACE = "modelwarden-system"
SCALER_ACCOUNT = "modeldeployment-scaler"


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
        if "fence.scalerUsernames" in flat:
            names = flat["fence.scalerUsernames"]
            if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"setting fence.scalerUsernames must be a list of texts, not {names!r}")
            values["scaler_usernames"] = tuple(names)
        return cls(**values)


_SWITCHES = {
    "instance-privileged-allowed": "instance_privileged_allowed",
    "instance-host-path-volume-allowed": "instance_host_path_volume_allowed",
    "model-deployment-kv-cache-dtype-owned": "model_deployment_kv_cache_dtype_owned",
}
