"""A package that cannot be installed fails the test that needs it; an index that cannot be reached skips it, and says so."""

import sys

import fetching
import pytest
from fetching import fetched, network_failed

SAID: dict[str, tuple[str, bool]] = {
    "no route": (
        (
            "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(…)': /simple/hatchling/\n"
            "ERROR: Could not find a version that satisfies the requirement hatchling (from versions: none)"
        ),
        True,
    ),
    "silence": (
        "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='index.example', port=443): Read timed out.",
        True,
    ),
    "half a file": ("pip._vendor.urllib3.exceptions.ProtocolError: ('Connection broken: IncompleteRead(1 bytes read)')", True),
    "an index in trouble": (
        "ERROR: HTTP error 503 while getting x\n503 Server Error: Service Unavailable for url: https://index.example/x",
        True,
    ),
    "a pin that nobody has": (
        (
            "ERROR: Could not find a version that satisfies the requirement msgspec==99 (from versions: 0.18, 0.19)\n"
            "ERROR: No matching distribution found for msgspec==99"
        ),
        False,
    ),
    "pins that contradict each other": (
        "ERROR: Cannot install a and b because these package versions have conflicting dependencies.",
        False,
    ),
    "a project that does not build": ("error: subprocess-exited-with-error\nValueError: Unable to determine which files to ship", False),
}


@pytest.mark.parametrize("sentence", SAID)
def test_the_network_is_told_from_the_package(sentence: str) -> None:
    """By the installer's own words."""
    said, network = SAID[sentence]
    assert network_failed(said) is network


@pytest.mark.parametrize(
    ("said", "outcome"), [("Read timed out.", pytest.skip.Exception), ("No matching distribution", pytest.fail.Exception)]
)
def test_only_the_network_is_a_reason_to_skip(said: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason in both."""
    monkeypatch.setattr(fetching, "PAUSE_SECONDS", 0.0)
    with pytest.raises(outcome, match=said):
        fetched([sys.executable, "-I", "-S", "-c", f"import sys; sys.exit({said!r})"], "a wheel")
