"""`mdctl args`: how an engine reads a command line."""

import sys

import click
import msgspec

from api.objects import EnvVar, RolePort
from engines.facade import read_argv


class Line(msgspec.Struct, frozen=True):
    """One input line of `--jsonl` (D8)."""

    engine: str
    argv: tuple[str, ...] = ()
    version: str | None = None
    env: tuple[EnvVar, ...] = ()
    command: tuple[str, ...] | None = None
    ports: tuple[RolePort, ...] = ()


def answer(raw: bytes) -> bytes:
    """The result line of one input line; a bad one gives `{"error": …}`."""
    try:
        line = msgspec.json.decode(raw, type=Line)
        return read_argv(line.engine, line.version, line.argv, line.env, line.command or (), ports=line.ports).to_json()
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        return msgspec.json.encode({"error": str(error.args[0] if error.args else error)})


@click.command()
@click.option("--jsonl", is_flag=True, help="Read one JSON document a line from standard input, write one result a line.")
def command(jsonl: bool) -> None:
    """Read an engine's command line as the engine reads it."""
    if jsonl:
        out = sys.stdout.buffer
        for raw in sys.stdin.buffer:
            if raw.strip():
                out.write(answer(raw) + b"\n")
                out.flush()
