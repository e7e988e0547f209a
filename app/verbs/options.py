"""`mdctl options`: an engine release's option table."""

import sys

import click
import msgspec
from rich.table import Table as Grid

from app.verbs.argsview import console
from engines.table import ENGINES, Option, choose, engine_name, versions

_ARITIES = {"0": "", "1": "VALUE", "?": "[VALUE]", "*": "[VALUE …]", "+": "VALUE …"}


def _matches(option: Option, text: str) -> bool:
    needle = text.lower().replace("_", "-")
    return any(needle in spelling for spelling in option.spellings) or needle in option.dest.replace("_", "-")


@click.command()
@click.option("--engine", default="vLLM", show_default=True, help="vLLM or SGLang, in any case of letters.")
@click.option("--engine-version", "--version", "version", help="The release; the newest known one when left out.")
@click.option("--grep", "grep", metavar="TEXT", help="Only options whose spelling or destination contains the text.")
@click.option("--releases", is_flag=True, help="Only list the releases that have a table.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True, help="The form.")
def command(engine: str, version: str | None, grep: str | None, releases: bool, output: str) -> None:
    """List every option that an engine release registers: spellings, arity, type, choices.

    \b
    Examples:
      mdctl options --engine vllm --version 0.29.0 --grep tensor
      mdctl options --engine sglang --grep ssl -o yaml
      mdctl options --engine sglang --releases

    \b
    Exit codes:
      0  listed; a release without a table of its own is read with the nearest older one
      2  the call itself is wrong
    """
    name = engine_name(engine)
    if name is None:
        raise click.BadParameter(f"{engine!r} is not one of {', '.join(ENGINES)}", param_hint="--engine")
    if releases:
        click.echo("\n".join(versions(name)))
        return
    chosen = choose(name, version)
    table = chosen.table
    found = [option for option in table if grep is None or _matches(option, grep)]
    if output != "table":
        rows = [
            {
                "dest": option.dest,
                "spellings": list(option.spellings),
                "arity": option.arity,
                "type": option.type,
                "choices": list(option.choices),
                "off": list(option.off),
                "deprecated": option.deprecated,
                "appends": option.appends,
            }
            for option in found
        ]
        document = {"engine": name, "table": table.version, "choice": chosen.choice, "options": rows}
        if output == "json":
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
            return
        import yaml

        yaml.safe_dump(document, sys.stdout, sort_keys=False, width=140)
        return
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("spellings", "takes", "type", "choices"):
        grid.add_column(title, overflow="fold")
    for option in found:
        choices = " ".join(str(choice) for choice in option.choices if choice is not None)
        kind = option.type or ("switch, off: " + " ".join(option.off) if option.off else "switch")
        grid.add_row(" ".join(s for s in option.spellings if s not in option.off), _ARITIES.get(option.arity, option.arity), kind, choices)
    console().print(grid)
    console().print(f"{len(found)} of {len(table.options)} options of {name} {table.version}")
