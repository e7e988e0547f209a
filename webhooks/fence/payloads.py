"""The two annotations' payloads, read strictly: hard caps, compact, exact members in their order, no key twice, integers that are integers.

What cannot be read is not guessed at: the caller treats it as bound and lets it only be removed. Source: admission facts 1.3.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from api.members import repeated
from api.objects import Struct

BINDING_BYTES = 1024
DECISION_BYTES = 4096
INT64_MAX = 2**63 - 1

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_UID = re.compile(r"[!-~]{1,128}")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|\+00:00)", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_BLANK = re.compile(r"\s")


class InvalidPayloadError(ValueError):
    """An annotation's text that is not a payload; the message says which part."""


class Binding(Struct, frozen=True):
    """`scaler-binding`: who owns the replica counts."""

    scaler: str
    uid: str
    term: int
    acquired_at: str


class Decision(Struct, frozen=True):
    """`scaler-decision`: which decision last changed them."""

    uid: str
    term: int
    sequence: int
    scaler_generation: int
    target_generation: int
    replicas: dict[str, int]
    digest: str
    decided_at: str


def read_binding(text: str) -> Binding:
    """The binding in an annotation's text. Raises InvalidPayloadError."""
    members = _members(text, BINDING_BYTES, ("version", "scaler", "uid", "term", "acquiredAt"))
    return Binding(
        scaler=_matching(members, "scaler", _SUBDOMAIN, "a DNS-1123 subdomain of at most 253 characters", 253),
        uid=_matching(members, "uid", _UID, "a UID", 128),
        term=_integer(members, "term", 1),
        acquired_at=_instant(members, "acquiredAt"),
    )


def read_decision(text: str) -> Decision:
    """The decision in an annotation's text. Raises InvalidPayloadError. The digest's form is checked here, its value by `digest_of`."""
    wanted = ("version", "uid", "term", "sequence", "scalerGeneration", "targetGeneration", "replicas", "digest", "decidedAt")
    members = _members(text, DECISION_BYTES, wanted)
    replicas = members["replicas"]
    if not isinstance(replicas, dict) or not replicas:
        raise InvalidPayloadError("replicas must be an object of role names and counts")
    return Decision(
        uid=_matching(members, "uid", _UID, "a UID", 128),
        term=_integer(members, "term", 1),
        sequence=_integer(members, "sequence", 1),
        scaler_generation=_integer(members, "scalerGeneration", 0),
        target_generation=_integer(members, "targetGeneration", 0),
        replicas={name: _integer(replicas, name, 0) for name in replicas},
        digest=_matching(members, "digest", _DIGEST, '"sha256:" and 64 lower-case hexadecimal digits', 71),
        decided_at=_instant(members, "decidedAt"),
    )


def digest_of(uid: str, term: int, sequence: int, replicas: Mapping[str, int]) -> str:
    """The digest a decision has to carry: over the canonical JSON of the four members that decide."""
    canonical = json.dumps(
        {"uid": uid, "term": term, "sequence": sequence, "replicas": dict(replicas)},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    return "sha256:" + hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def _members(text: str, limit: int, wanted: tuple[str, ...]) -> dict[str, Any]:
    if len(text) > limit or len(text.encode("utf-8", "surrogatepass")) > limit:
        raise InvalidPayloadError(f"it is longer than {limit} bytes")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except InvalidPayloadError:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidPayloadError("it is no JSON") from error
    if not isinstance(value, dict):
        raise InvalidPayloadError("it is no JSON object")
    for key in value:
        if key not in wanted:
            raise InvalidPayloadError(f"{key[:64]!r} is no member of it")
    for key in wanted:
        if key not in value:
            raise InvalidPayloadError(f"{key} is missing")
    if tuple(value) != wanted:
        raise InvalidPayloadError(f"its members stand in another order than {', '.join(wanted)}")
    if _BLANK.search(_TEXT.sub("", text)):
        raise InvalidPayloadError("it is no compact JSON: blanks stand between its parts")
    if _integer(value, "version", 1) != 1:
        raise InvalidPayloadError("version must be 1")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    key = repeated(pairs)
    if key is not None:
        raise InvalidPayloadError(f"{key[:64]!r} occurs twice")
    return dict(pairs)


def _refuse_constant(word: str) -> Any:
    raise InvalidPayloadError(f"{word} is no number")


def _integer(members: Mapping[str, Any], key: str, least: int) -> int:
    value = members[key]
    if type(value) is not int or not least <= value <= INT64_MAX:
        raise InvalidPayloadError(f"{key[:64]} must be an integer of at least {least}")
    return value


def _instant(members: Mapping[str, Any], key: str) -> str:
    text = _matching(members, key, _INSTANT, "an RFC 3339 instant in UTC", 40)
    try:
        datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007 - only whether such a day and hour exist
    except ValueError as error:
        raise InvalidPayloadError(f"{key} must be an RFC 3339 instant in UTC") from error
    return text


def _matching(members: Mapping[str, Any], key: str, pattern: re.Pattern[str], what: str, limit: int) -> str:
    value = members[key]
    if not isinstance(value, str) or len(value) > limit or not pattern.fullmatch(value):
        raise InvalidPayloadError(f"{key} must be {what}")
    return value
