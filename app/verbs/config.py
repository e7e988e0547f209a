"""`mdctl config`: the effective settings, each with the place it came from."""

import json
from typing import Any

import click

from app.flags import with_settings
from app.settings import FIELDS, Effective


@click.command("config", short_help="Print the effective settings and where each came from.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "yaml", "json"]), default="table", show_default=True, help="yaml is a file for --config."
)
@click.option("--describe", is_flag=True, help="Say what each setting is for.")
@with_settings()
def command(effective: Effective, output: str, describe: bool) -> None:
    """Print the effective settings and where each came from.

    Precedence: flag, environment (MODELWARDEN_…), file (--config), the Pod itself, default. An unknown key is an error that names the
    nearest known one.

    \b
    Examples:
      mdctl config
      mdctl config --config modelwarden.yaml -o json
      MODELWARDEN_KUEUE=absent mdctl config
      mdctl config --kueue absent -o yaml > modelwarden.yaml

    \b
    Exit codes:
      0  printed
      2  a setting is wrong: its name, its value, or the file
    """
    rows = effective.rows()
    if output == "json":
        print(json.dumps({key: {"value": value, "origin": origin} for key, value, origin in rows}, indent=2))
    elif output == "yaml":
        for key, value, origin in rows:
            if value is not None:
                print(f"{key}: {json.dumps(value)}  # {origin}")
    else:
        _table(rows, describe=describe)


def _table(rows: list[tuple[str, Any, str]], *, describe: bool) -> None:
    shown = [(key, _text(value), origin) for key, value, origin in rows]
    widths = [max(len(row[i]) for row in [("NAME", "VALUE", "ORIGIN"), *shown]) for i in range(2)]
    print(f"{'NAME':{widths[0]}}  {'VALUE':{widths[1]}}  ORIGIN")
    for key, value, origin in shown:
        print(f"{key:{widths[0]}}  {value:{widths[1]}}  {origin}")
        if describe:
            print(f"  {FIELDS[key].description}")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ",".join(value) or "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
