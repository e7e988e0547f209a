"""Structured logs: one JSON object a line, or a console form on a terminal. Everything goes to stderr; stdout belongs to verbs.

Fields come in a fixed order (`ts level logger msg controller namespace name reconcileID error …`), so that lines can be read by eye. What a
user's object carries is never logged whole: a few names are dropped here, whoever passes them.
"""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

ORDER = ("ts", "level", "logger", "msg", "controller", "namespace", "name", "reconcileID", "error")

# Values that may hold a secret, or a whole object.
UNLOGGED = frozenset(
    {"env", "environ", "environment", "body", "object", "patch", "headers", "authorization", "token", "key", "annotations", "data"}
)

# Chatter of libraries that says nothing about us.
_QUIET = ("asyncio", "httpx", "httpcore", "urllib3", "uvicorn", "uvicorn.error", "uvicorn.access", "kubernetes")

Format = Literal["auto", "json", "console"]


def configure(
    level: str = "info", form: Format = "auto", *, stream: TextIO | None = None, environ: Mapping[str, str] | None = None
) -> None:
    """Set up logging for the process. Standard-library loggers come out in the same form."""
    stream = stream or sys.stderr
    environ = os.environ if environ is None else environ
    console = form == "console" or (form == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        drop_unlogged,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # A module's logger would keep the set-up of its first line; lines are rare enough to look it up each time.
        cache_logger_on_first_use=False,
    )
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if console:
        colors = stream.isatty() and not environ.get("NO_COLOR")
        last += [structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="ts", event_key="event", pad_event_to=0)]
    else:
        last += [say_error, structlog.processors.EventRenamer("msg"), in_order, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()]))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def drop_unlogged(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Values that may hold secrets are named and not shown."""
    for key in UNLOGGED.intersection(event):
        event[key] = "(not logged)"
    return event


def say_error(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """An exception becomes `error` (one line) and `stacktrace`."""
    found = event.get("exc_info")
    if found is True:
        found = sys.exc_info()[1]
    elif isinstance(found, tuple):
        found = found[1]
    if isinstance(found, BaseException) and "error" not in event:
        event["error"] = f"{type(found).__name__}: {found}"
    event = dict(structlog.processors.format_exc_info(logger, method, event))
    if "exception" in event:
        event["stacktrace"] = event.pop("exception")
    return event


def in_order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The known fields first, the rest by name."""
    ordered: dict[str, Any] = {key: event[key] for key in ORDER if key in event}
    ordered.update((key, event[key]) for key in sorted(event.keys() - ordered.keys()))
    return ordered
