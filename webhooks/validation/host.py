"""Volumes, access to the host, and where Pods may be placed. Source: admission facts 3.8."""

import re
from collections.abc import Iterator

from api.objects import VolumeMount
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import Subject

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def qualified(key: str) -> bool:
    """Whether a text is a label key: an optional DNS-1123 subdomain and `/`, then a name of at most 63 characters."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _LABEL_PREFIX.fullmatch(prefix)):
        return False
    return _LABEL_NAME.fullmatch(name) is not None


@rule(
    "MD601",
    "VolumeHasSource",
    "An additional volume names what it mounts.",
    "spec.roles[i].additionalVolumes[j]",
    when="volumes",
    source="3.8",
)
def volume_source(subject: Subject) -> Iterator[Problem]:
    """A config map, a secret or a host path."""
    for view in subject.roles:
        for position, volume in enumerate(view.role.additional_volumes):
            if volume.config_map is None and volume.secret is None and volume.host_path is None:
                yield Problem(
                    field=f"{view.path}.additionalVolumes[{position}]", reason="Required", said="needs configMap, secret or hostPath"
                )


@rule(
    "MD602",
    "MountPathOnce",
    "No two volumes of a role are mounted at one path.",
    "spec.roles[i].additionalVolumes[j].mountPath",
    when="volumes",
    source="3.8",
)
def mount_path_once(subject: Subject) -> Iterator[Problem]:
    """The second one is at fault."""
    for view in subject.roles:
        seen: set[str] = set()
        for position, volume in enumerate(view.role.additional_volumes):
            if volume.mount_path in seen:
                yield Problem(
                    field=f"{view.path}.additionalVolumes[{position}].mountPath",
                    reason="Duplicate",
                    value=volume.mount_path,
                    said="is mounted already",
                )
            seen.add(volume.mount_path)


@rule(
    "MD603", "SubPathInside", "A subPath has no `..` segment.", "spec.roles[i].additionalVolumes[j].subPath", when="volumes", source="3.8"
)
def sub_path_inside(subject: Subject) -> Iterator[Problem]:
    """`a..b` is a name like any other."""
    for view in subject.roles:
        for position, volume in enumerate(view.role.additional_volumes):
            if volume.sub_path and ".." in volume.sub_path.split("/"):
                yield Problem(
                    field=f"{view.path}.additionalVolumes[{position}].subPath", value=volume.sub_path, said="must not leave the volume"
                )


@rule(
    "MD604",
    "PrivilegedAllowed",
    "A role becomes privileged only where the setting instance-privileged-allowed permits it.",
    "spec.roles[i].privileged",
    when="privileged",
    source="3.8",
)
def privileged_allowed(subject: Subject) -> Iterator[Problem]:
    """A role that is privileged already is let be."""
    if subject.settings.instance_privileged_allowed:
        return
    for view in subject.roles:
        if view.role.privileged and not (view.old is not None and view.old.privileged):
            yield Problem(field=f"{view.path}.privileged", reason="Forbidden", said="the setting instance-privileged-allowed is false")


@rule(
    "MD605",
    "HostPathAllowed",
    "A role mounts a host path only where the setting instance-host-path-volume-allowed permits it.",
    "spec.roles[i].additionalVolumes[j].hostPath",
    when="volumes",
    source="3.8",
)
def host_path_allowed(subject: Subject) -> Iterator[Problem]:
    """An entry that the stored role has, whatever its place in the list, is let be."""
    if subject.settings.instance_host_path_volume_allowed:
        return
    for view in subject.roles:
        held = {_host_path(volume) for volume in view.old.additional_volumes if volume.host_path is not None} if view.old else set()
        for position, volume in enumerate(view.role.additional_volumes):
            if volume.host_path is not None and _host_path(volume) not in held:
                yield Problem(
                    field=f"{view.path}.additionalVolumes[{position}].hostPath",
                    reason="Forbidden",
                    said="the setting instance-host-path-volume-allowed is false",
                )


def _host_path(volume: VolumeMount) -> tuple[str, str, str, bool]:
    source = volume.host_path or {}
    return str(source.get("path", "")), str(source.get("type") or ""), volume.sub_path or "", volume.read_only


@rule(
    "MD606",
    "TopologyLevel",
    "A required topology level is a label key, and not the host name.",
    "spec.roles[i].topology.requiredLevel",
    when="topology",
    source="3.8",
)
def topology_level(subject: Subject) -> Iterator[Problem]:
    """A group of Pods does not fit one host by decree."""
    for view in subject.roles:
        level = view.role.topology.required_level if view.role.topology else None
        if not level:
            continue
        field = f"{view.path}.topology.requiredLevel"
        if level == "kubernetes.io/hostname":
            yield Problem(field=field, reason="Forbidden", said="kubernetes.io/hostname cannot be required")
        elif not qualified(level):
            yield Problem(field=field, value=level, said="must be a qualified label key")


RULES = (volume_source, mount_path_once, sub_path_inside, privileged_allowed, host_path_allowed, topology_level)
