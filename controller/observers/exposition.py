"""The Prometheus text exposition, as far as gauges and counters of an engine need it. Strict: a line that is none spoils the whole reading.

A sample is (labels, value) under its name. Timestamps and exemplars are passed over; NaN and infinities are values like others here, for it
is the reader who has to refuse them.
"""

import re
from typing import Final

from controller.observers.net import ObservationError

_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+[-+0-9.eE]+)?(?:[ \t]+#.*)?")
_LABEL: Final = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_UNESCAPED: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Samples = dict[str, list[tuple[dict[str, str], float]]]


def samples(body: bytes, wanted: frozenset[str]) -> Samples:
    """The samples of the wanted names; a name without samples has no entry. Raises ObservationError when the body is no exposition."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise ObservationError("the answer is no text") from fault
    found: Samples = {}
    seen = False
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(stripped)
        if match is None:
            raise ObservationError("the answer is no metrics exposition")
        seen = True
        name, labels, value = match.groups()
        if name in wanted:
            found.setdefault(name, []).append((_labels(labels or ""), _value(value)))
    if not seen:
        raise ObservationError("the answer holds no sample")
    return found


def _value(text: str) -> float:
    try:
        return float(text)
    except ValueError as fault:
        raise ObservationError("a sample's value is no number") from fault


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise ObservationError("a sample's labels cannot be read")
        labels[match[1]] = re.sub(r"\\.", lambda found: _UNESCAPED.get(found[0], found[0]), match[2])
        at = match.end()
    return labels
