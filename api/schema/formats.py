"""The string formats that apiextensions checks. An unknown format is no constraint, as on an API server."""

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime
from typing import Final
from urllib.parse import urlsplit

INT32: Final = (-(1 << 31), (1 << 31) - 1)
INT64: Final = (-(1 << 63), (1 << 63) - 1)
NUMBER_RANGES: Final = {"int32": INT32, "int64": INT64}

_DATE_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_DURATION: Final = re.compile(
    r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*|[-+]?0", re.ASCII
)
_HOSTNAME: Final = re.compile(
    r"(?=.{1,253}\Z)([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*\.?", re.IGNORECASE | re.ASCII
)
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.?[^@\s]*")
_MAC: Final = re.compile(r"([0-9a-f]{2}([:-])(?:[0-9a-f]{2}\2){4}[0-9a-f]{2})|([0-9a-f]{4}\.){2}[0-9a-f]{4}", re.IGNORECASE)


def _date_time(text: str) -> bool:
    return bool(_DATE_TIME.fullmatch(text)) and _reads(lambda t: datetime.fromisoformat(t.upper()), text)


def _reads(reader: Callable[[str], object], text: str) -> bool:
    try:
        reader(text)
    except (ValueError, binascii.Error):
        return False
    return True


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) and bool(parts.netloc or parts.path)


CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": lambda t: _reads(lambda v: base64.b64decode(v, validate=True), t),
    "cidr": lambda t: "/" in t and _reads(lambda v: ipaddress.ip_network(v, strict=False), t),
    "date": lambda t: len(t) == 10 and _reads(date.fromisoformat, t),
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": lambda t: bool(_DURATION.fullmatch(t)),
    "email": lambda t: bool(_EMAIL.fullmatch(t)),
    "hostname": lambda t: bool(_HOSTNAME.fullmatch(t)),
    "ipv4": lambda t: _reads(ipaddress.IPv4Address, t),
    "ipv6": lambda t: _reads(ipaddress.IPv6Address, t),
    "mac": lambda t: bool(_MAC.fullmatch(t)),
    "uri": _uri,
    "uuid": lambda t: _reads(uuid.UUID, t),
}


def matches(format_name: str, text: str) -> bool:
    """Whether the text has the format; True for a format that nobody knows."""
    check = CHECKS.get(format_name)
    return check is None or check(text)
