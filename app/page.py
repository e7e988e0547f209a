"""The small page at `/`: every deployment with its phase, as the cache shows it. Plain HTML, no script, nothing fetched."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from html import escape

_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Modelwarden</title><style>
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid #d7dce2;vertical-align:top}
@media (prefers-color-scheme:dark){body{color:#e6e9ed;background:#14171b}th,td{border-color:#333a42}}
</style><h1>Model deployments</h1>"""


@dataclass(frozen=True, slots=True)
class Row:
    """One deployment, as `kubectl get md -A -o wide` shows it."""

    namespace: str
    name: str
    engine: str
    roles: str
    phase: str
    endpoint: str
    message: str


def render(rows: Iterable[Row]) -> str:
    """The page. Every value is escaped: names and messages come from users' objects."""
    cells = sorted((astuple(row) for row in rows), key=lambda row: (row[0], row[1]))
    if not cells:
        return f"{_HEAD}<p>None yet.</p></html>"
    titles = ("Namespace", "Name", "Engine", "Roles", "Phase", "Endpoint", "Message")
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>" for row in cells)
    return f"{_HEAD}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></html>"
