"""`mdctl version`: what this is, and what it runs on."""

import json
import platform

import click

from app.build import build


@click.command("version", short_help="Print the version.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the answer.")
def command(output: str) -> None:
    """Print the version of Modelwarden and of the Python it runs on.

    \b
    Examples:
      mdctl version
      mdctl version -o json

    \b
    Exit codes:
      0  printed
      2  the call itself is wrong
    """
    info = build()
    if output == "json":
        print(json.dumps({"version": info.version, "revision": info.revision, "python": platform.python_version()}))
        return
    print(f"modelwarden {info.version}{f' ({info.revision})' if info.revision else ''}, Python {platform.python_version()}")
