"""What the engines' own launch code made of 3,500 forged lines with their environment, five releases: recorded once, held to ever since.

`ends` is the load balancing that the launch ended in, null where it was refused. Left out are launches that fail for want of a package
(Ray, NIXL), vLLM's multi-port mode, whose children are launched later than the recorded walk looks, and what SGLang asks of the model.
"""

import gzip
from pathlib import Path

import msgspec
import pytest

from api.objects import EnvVar
from engines.facade import RoleReading, read_argv


class Launch(msgspec.Struct, frozen=True):
    """One recorded line."""

    engine: str
    version: str
    argv: tuple[str, ...]
    env: dict[str, str]
    ends: str | None

    @property
    def reading(self) -> RoleReading:
        """How the line reads here."""
        return read_argv(self.engine, self.version, self.argv, [EnvVar(name=k, value=v) for k, v in self.env.items()])


FILE = Path(__file__).parent / "cases" / "launches.jsonl.gz"
LAUNCHES = [msgspec.json.decode(line, type=Launch) for line in gzip.decompress(FILE.read_bytes()).splitlines()]
RELEASES = ("0.25.1", "0.29.0", "0.33.0", "0.5.18", "0.5.23")

# Refused behind the point where the recorded walk of vLLM stops: a headless start without local ranks, and what the web server is given.
LATER = {"vLLM": {"EA108", "EA301", "EA305"}, "SGLang": set()}


def launches(version: str, *, refused: bool) -> list[Launch]:
    """The lines of a release that its engine refused, or that it started."""
    found = [launch for launch in LAUNCHES if launch.version == version and (launch.ends is None) is refused]
    assert len(found) == 350
    return found


@pytest.mark.parametrize("version", RELEASES)
def test_no_error_is_claimed_where_the_engine_starts(version: str) -> None:
    """And the mode that it ends in is told where the flags say another."""
    wrong: list[tuple[Launch, list[str]]] = []
    for launch in launches(version, refused=False):
        reading = launch.reading
        errors = [f.message for f in reading.findings if f.severity == "error" and f.id not in LATER[launch.engine]]
        ends = [f.message for f in reading.findings if f.id == "EA107"]
        told = all(f"ends in {launch.ends} balancing" in message for message in ends)
        if errors or not told or bool(ends) == (launch.ends == reading.parallelism.load_balance):
            wrong.append((launch, [*errors, *ends]))
    assert not wrong


@pytest.mark.parametrize("version", RELEASES)
def test_an_error_is_told_where_the_engine_refuses(version: str) -> None:
    """An unreadable line is one as well."""
    wrong = [launch for launch in launches(version, refused=True) if not any(f.severity == "error" for f in launch.reading.findings)]
    assert not wrong
