"""Where settings come from: flags, the environment, a file, the Pod itself; each as a layer that knows how it calls its values.

An unknown key is an error that names the nearest known one, in every source. The known names are handed in: this module knows no setting.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "MODELWARDEN_"
CONFIG_VARIABLE = "MODELWARDEN_CONFIG"
ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

# A Service named modelwarden makes the kubelet put these into every Pod beside it. They are no settings of ours.
_SERVICE_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_.+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?$")
_FOREIGN_PREFIXES = ("MODELWARDEN_TEST_", "MODELWARDEN_BENCH_")


class SettingsError(Exception):
    """The settings cannot be used. The message has one line per fault."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of one origin, and how that origin calls each of them."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]


def from_environment(environ: Mapping[str, str], known: Mapping[str, str]) -> Layer:
    """`known` maps variables to settings."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    unknown: list[str] = []
    for name, value in environ.items():
        if not name.startswith(PREFIX):
            continue
        if name in known:
            values[known[name]] = value
            origins[known[name]] = f"environment {name}"
        elif name != CONFIG_VARIABLE and not name.startswith(_FOREIGN_PREFIXES) and not _SERVICE_LINK.search(name):
            unknown.append(name)
    if unknown:
        raise SettingsError("\n".join(f"environment variable {name} is no setting{_nearest(name, known)}" for name in sorted(unknown)))
    return Layer(values, origins)


def from_file(path: Path, known: Iterable[str]) -> Layer:
    """Settings by name, nested or dotted."""
    from api.documents import DocumentError, documents  # YAML, which a service without such a file never needs

    try:
        found = documents(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"settings file {path}: byte {error.start} is no UTF-8") from error
    except DocumentError as error:
        raise SettingsError(f"settings file {path}: {error}") from error
    if len(found) > 1:
        raise SettingsError(f"settings file {path} holds {len(found)} documents; one is read")
    content = found[0] if found else None
    if content is not None and not isinstance(content, dict):
        raise SettingsError(f"settings file {path} has to hold a mapping")
    names = frozenset(known)
    values: dict[str, Any] = {}
    for key, value in _flatten("", content or {}, names):
        if key in values:
            raise SettingsError(f"settings file {path}: {key} is there twice")
        values[key] = value
    unknown = sorted(set(values) - names)
    if unknown:
        raise SettingsError("\n".join(f"settings file {path}: {key} is no setting{_nearest(key, names)}" for key in unknown))
    return Layer(values, dict.fromkeys(values, f"file {path}"))


def _flatten(prefix: str, content: Mapping[Any, Any], known: frozenset[str]) -> Iterable[tuple[str, Any]]:
    """`fence: {scalerUsernames: …}` and `fence.scalerUsernames: …` are the same."""
    for name, value in content.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key not in known:
            yield from _flatten(f"{key}.", value, known)
        else:
            yield key, value


def from_pod(environ: Mapping[str, str]) -> Layer:
    """What the Pod says of itself: its namespace."""
    if environ.get("POD_NAMESPACE"):
        return Layer({"namespace": environ["POD_NAMESPACE"]}, {"namespace": "environment POD_NAMESPACE"})
    try:
        namespace = ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return Layer({}, {})
    return Layer({"namespace": namespace}, {"namespace": "the Pod's service account"}) if namespace else Layer({}, {})


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    if not close:
        folded = {k.rsplit(".", 1)[-1].lower(): k for k in known}
        close = [folded[c] for c in difflib.get_close_matches(name.rsplit(".", 1)[-1].lower(), list(folded), n=1, cutoff=0.5)]
    return f"; the nearest is {close[0]}" if close else "; `mdctl config` lists them"
