"""Both annotations' payloads: what is read, what is refused, and by which words."""

import pytest
from reviewing import OWNER, binding, compact, decision

from webhooks.fence import InvalidPayloadError, digest_of, read_binding, read_decision

REFUSED_BINDINGS = {
    "no JSON": ("{", "no JSON"),
    "empty": ("", "no JSON"),
    "an array": ("[]", "no JSON object"),
    "a number that is none": (binding().replace('"term":3', '"term":NaN'), "NaN"),
    "a key twice, with one value": (binding().replace('"term":3', '"term":3,"term":3'), "twice"),
    "a key twice, once escaped": (binding().replace('"term":3', '"term":3,"\\u0074erm":4'), "twice"),
    "an unknown key": (binding(note="x"), "note"),
    "a missing key": (compact({"version": 1, "scaler": "s", "uid": OWNER, "term": 1}), "acquiredAt is missing"),
    "version 2": (binding(version=2), "version"),
    "version true": (binding(version=True), "version"),
    "term 0": (binding(0), "term"),
    "a negative term": (binding(-1), "term"),
    "a term that is a text": (binding(term="3"), "term"),  # type: ignore[arg-type]
    "a term with a point": (binding().replace('"term":3', '"term":3.0'), "term"),
    "a term above int64": (binding(2**63), "term"),
    "a scaler that is no DNS name": (binding(scaler="Queue_Scaler"), "scaler"),
    "a scaler with a newline behind it": (binding(scaler="queue\n"), "scaler"),
    "a scaler of 254 characters": (binding(scaler="a" * 254), "scaler"),
    "an empty uid": (binding(uid=""), "uid"),
    "a uid with blanks": (binding(uid="a b"), "uid"),
    "a time that is none": (binding(acquiredAt="yesterday"), "acquiredAt"),
    "a time elsewhere than in UTC": (binding(acquiredAt="2026-01-01T00:00:00+02:00"), "acquiredAt"),
    "more than 1024 bytes": (binding() + " " * 1024, "1024 bytes"),
    "fewer characters but more bytes than 1024": ('"' + "é" * 600 + '"', "1024 bytes"),
    "blanks between its parts": (binding().replace(",", ", "), "compact"),
    "a newline behind it": (binding() + "\n", "compact"),
    "its members in another order": (
        compact({"scaler": "s", "version": 1, "uid": OWNER, "term": 1, "acquiredAt": "2026-01-01T00:00:00Z"}),
        "order",
    ),
    "a month that is none": (binding(acquiredAt="2026-13-01T00:00:00Z"), "acquiredAt"),
    "nested without end": ("[" * 1000, "no JSON"),
}
REFUSED_DECISIONS = {
    "a key twice in replicas": (decision({"server": 2}).replace('{"server":2}', '{"server":2,"server":2}'), "twice"),
    "no replicas": (decision({}), "replicas"),
    "replicas as a list": (decision({"server": 2}, replicas=[2]), "replicas"),
    "a count that is a text": (decision({"server": 2}, replicas={"server": "2"}), "server"),
    "a negative count": (decision({"server": -2}), "server"),
    "a count that is true": (decision({"server": 2}, replicas={"server": True}), "server"),
    "sequence 0": (decision({"server": 2}, sequence=0), "sequence"),
    "a digest without its prefix": (decision({"server": 2}, digest="0" * 64), "digest"),
    "a digest in capitals": (decision({"server": 2}, digest="sha256:" + "A" * 64), "digest"),
    "a short digest": (decision({"server": 2}, digest="sha256:00"), "digest"),
    "a generation that is a text": (decision({"server": 2}, targetGeneration="7"), "targetGeneration"),
    "more than 4096 bytes": (decision({"server": 2}) + " " * 4096, "4096 bytes"),
}


@pytest.mark.parametrize("name", REFUSED_BINDINGS)
def test_refused_binding(name: str) -> None:
    """What cannot be read says why."""
    text, why = REFUSED_BINDINGS[name]
    with pytest.raises(InvalidPayloadError, match=why):
        read_binding(text)


@pytest.mark.parametrize("name", REFUSED_DECISIONS)
def test_refused_decision(name: str) -> None:
    """What cannot be read says why."""
    text, why = REFUSED_DECISIONS[name]
    with pytest.raises(InvalidPayloadError, match=why):
        read_decision(text)


def test_binding_is_read() -> None:
    """Every member arrives; an escape is as good as its letter, and blanks within a text are the text's."""
    read = read_binding(
        '{"version":1,"scaler":"\\u0061.b-c","uid":"u\\"{:","term":9223372036854775807,"acquiredAt":"2026-01-01T00:00:00.5Z"}'
    )
    assert (read.scaler, read.uid, read.term, read.acquired_at) == ("a.b-c", 'u"{:', 2**63 - 1, "2026-01-01T00:00:00.5Z")


def test_decision_is_read() -> None:
    """Every member arrives."""
    read = read_decision(decision({"a": 2, "b": 1}, 3, 4))
    assert (read.uid, read.term, read.sequence, read.scaler_generation, read.target_generation) == (OWNER, 3, 4, 2, 7)
    assert read.replicas == {"a": 2, "b": 1}
    assert read.digest == digest_of(OWNER, 3, 4, {"b": 1, "a": 2})


def test_digest_is_over_the_canonical_json_of_the_four_members() -> None:
    """Sorted keys, no blanks: a value taken from another implementation."""
    assert (
        digest_of("71b82c51-42c0-5dca-bb37-98e89c19d065", 3, 4, {"server": 2})
        == "sha256:bb9681a765e2db861909583cbb5115b83b0e2270d8e753dc86f37ad384d9d913"
    )
