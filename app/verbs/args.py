"""`mdctl args`: how an engine reads a command line, without the engine and without a cluster."""

import sys
from typing import Any

import click
import msgspec

from api.objects import EnvVar, RolePort
from engines.facade import RoleReading, read_argv
from engines.table import ENGINES, engine_name


class Variable(msgspec.Struct, frozen=True, rename="camel"):
    """One variable as a Pod may write it. A value from elsewhere is a reference to itself here: one that nobody resolves."""

    name: str = ""
    value: str | None = None
    value_from: dict[str, Any] | None = None

    @property
    def literal(self) -> EnvVar:
        """The variable as a role writes it."""
        return EnvVar(name=self.name, value=self.value if self.value_from is None else f"$({self.name})")


class Line(msgspec.Struct, frozen=True):
    """One input line of `--jsonl` (D8); null is absent. `ports` may tell the role's ports; the serving port is 8000 without them."""

    engine: str
    argv: tuple[str, ...] | None = None
    version: str | None = None
    env: tuple[Variable, ...] | None = None
    command: tuple[str, ...] | None = None
    ports: tuple[RolePort, ...] | None = None


_DECODER = msgspec.json.Decoder(Line)


def answer(raw: bytes) -> bytes:
    """The result line of one input line; a bad one gives `{"error": …}`."""
    try:
        line = _DECODER.decode(raw)
        env = [variable.literal for variable in line.env or ()]
        return read_argv(line.engine, line.version, line.argv or (), env, line.command or (), ports=line.ports or ()).to_json()
    except (msgspec.MsgspecError, KeyError, UnicodeError) as error:
        return msgspec.json.encode({"error": str(error.args[0] if error.args else error)})
    except RecursionError:
        return msgspec.json.encode({"error": "the line is nested too deeply"})


def _lines() -> None:
    out = sys.stdout.buffer
    for raw in sys.stdin.buffer:
        if raw.strip():
            out.write(answer(raw) + b"\n")
            out.flush()


def _environment(pairs: tuple[str, ...]) -> tuple[EnvVar, ...]:
    variables = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--env")
        variables.append(EnvVar(name=name, value=value))
    return tuple(variables)


def _known_engine(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    name = engine_name(value)
    if name is None:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(ENGINES)}")
    return name


@click.command()
@click.option("--engine", default="vLLM", show_default=True, callback=_known_engine, help="vLLM or SGLang, in any case of letters.")
@click.option("--engine-version", "--version", "version", help="The engine's release; the newest known one when left out.")
@click.option("--env", "-e", "env", multiple=True, metavar="NAME=VALUE", help="A variable of the role's own environment; repeatable.")
@click.option("--port", "port", type=click.IntRange(1, 65535), help="The role's serving port (8000).")
@click.option("--take-over", is_flag=True, help="The arguments are the role's own command, not its extra arguments.")
@click.option("--compare", metavar="A,B", help="Read with two releases and say what changes from A to B.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True, help="The form.")
@click.option("--jsonl", is_flag=True, help="Read one JSON document a line from standard input, answer one line each (for programs).")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def command(  # noqa: PLR0917 - click passes by name
    engine: str,
    version: str | None,
    env: tuple[str, ...],
    port: int | None,
    take_over: bool,
    compare: str | None,
    output: str,
    jsonl: bool,
    argv: tuple[str, ...],
) -> None:
    """Read an engine's command line as the engine itself reads it.

    Which spelling resolves to what, what is ignored and why, what nobody can read, and the facts that follow: parallelism, load balance,
    listener, TLS and readiness gates.

    \b
    Examples:
      mdctl args -- --tensor-parallel-size 2 -ep
      mdctl args --engine sglang --version 0.5.18 -- --tp 8 --enable-dp-attention
      mdctl args --env VLLM_DP_SIZE=4 -o yaml -- -tp 2
      mdctl args --compare 0.29.0,0.33.0 -- --disable-expert-parallel
      mdctl args --jsonl < lines.jsonl

    \b
    Exit codes:
      0  read (with --jsonl: every line was answered)
      1  the engine would refuse the line: a part of it is unreadable
      2  the call itself is wrong
    """
    if jsonl:
        _lines()
        return
    # A terminal may hand over bytes that are no UTF-8; no Pod can carry them.
    argv = tuple(token.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for token in argv)
    variables = _environment(env)
    ports = (RolePort(port=port),) if port else ()

    def read(release: str | None) -> RoleReading:
        return read_argv(engine, release, () if take_over else argv, variables, argv if take_over else (), ports=ports)

    from app.verbs import argsview

    if compare is not None:
        before, comma, after = (part.strip() for part in compare.partition(","))
        if not (before and comma and after):
            raise click.BadParameter(f"{compare!r} does not name two releases, as 0.29.0,0.33.0 does", param_hint="--compare")
        argsview.compared(read(before), read(after), output)
        return
    reading = read(version)
    argsview.shown(reading, output)
    if reading.reading.faults and not take_over:
        sys.exit(1)
