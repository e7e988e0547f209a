"""`mdctl review`: answer AdmissionReviews without a cluster."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from api.documents import DocumentError, documents
from app.inputs import InputError, json_line, read_source
from webhooks.offline import answer
from webhooks.settings import AdmissionSettings, parse_setting

EXAMPLES = """\b
Examples:
  mdctl review -f review.yaml --objects dump.yaml
  kubectl get instancetypes -o yaml | mdctl review -f review.yaml --objects -
  mdctl review --jsonl < reviews.jsonl

\b
Exit codes:
  0  allowed (with --jsonl: every line was answered)
  1  refused
  2  the call itself is wrong, or the review cannot be judged
"""

REFUSED = frozenset({403, 422})
"""What the fence and the rules answer; every other code says that the review could not be judged."""


@click.command("review", epilog=EXAMPLES)
@click.option("-f", "--file", "file", metavar="FILE", help="The AdmissionReview, YAML or JSON; - is standard input.")
@click.option("--objects", "objects", metavar="FILE", multiple=True, help="Objects that look-ups may find: a YAML stream or a List.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="A setting, e.g. instance-privileged-allowed=true.")
@click.option("--jsonl", is_flag=True, help="One review per line of standard input, one answer per line.")
def command(file: str | None, objects: tuple[str, ...], settings: tuple[str, ...], jsonl: bool) -> None:
    """Answer an AdmissionReview as the webhooks would, without a cluster."""
    _quiet()
    if jsonl:
        _lines()
        return
    if file is None:
        raise click.UsageError("give a review with -f, or --jsonl")
    try:
        reviews = list(_documents(file))
        if len(reviews) != 1:
            raise InputError(f"{file}: one AdmissionReview is wanted, {len(reviews) or 'none'} found")
        found = [obj for source in objects for document in _documents(source) for obj in _expanded(document)]
        response = asyncio.run(answer(reviews[0], found, AdmissionSettings.from_flat(dict(parse_setting(text) for text in settings))))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except RecursionError as error:
        raise InputError(f"{file}: nested too deeply, or an alias that contains itself") from error
    click.echo(json.dumps(response, indent=2, ensure_ascii=False))
    code = (response.get("status") or {}).get("code")
    sys.exit(0 if response.get("allowed") else 1 if code in REFUSED else 2)


def _lines() -> None:
    """D8: one JSON document per input line, one result line each, in order; a bad line is answered and the run goes on."""
    with asyncio.Runner() as runner:
        for line in sys.stdin.buffer:
            if not line.strip():
                continue
            try:
                response = runner.run(answer(*_asked(json_line(line))))
                text = json.dumps(response, ensure_ascii=False, separators=(",", ":"))
            except ValueError as error:
                text = json.dumps({"error": str(error)}, separators=(",", ":"))
            except (TypeError, KeyError, AttributeError, RecursionError) as error:
                text = json.dumps({"error": f"{type(error).__name__}: {error}"}, separators=(",", ":"))
            sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
            sys.stdout.buffer.flush()


def _asked(document: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]], AdmissionSettings]:
    """The review, the objects and the settings of a line. Raises ValueError."""
    review, objects, settings = document.get("review"), document.get("objects") or [], document.get("settings") or {}
    if not isinstance(review, dict):
        raise ValueError("review: an AdmissionReview object is wanted")  # noqa: TRY004 - one kind of fault
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise ValueError("objects: a list of objects is wanted")
    if not isinstance(settings, dict):
        raise ValueError("settings: a map of setting names and values is wanted")  # noqa: TRY004
    return review, objects, AdmissionSettings.from_flat(settings)


def _documents(source: str) -> Iterator[dict[str, Any]]:
    try:
        found = documents(read_source(source))
    except DocumentError as error:
        raise InputError(f"{source}: {error}") from error
    yield from (document for document in found if isinstance(document, dict))


def _expanded(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of a document: itself, or the items of a List."""
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return [document]


def _quiet() -> None:
    """Answers go to standard output, what the server logs to standard error."""
    import structlog

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
