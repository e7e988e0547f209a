"""Logs: fixed fields in order, errors in one line, secrets never, colours only for a terminal that wants them."""

import io
import json
import logging

import pytest
import structlog

from app.logging import configure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def leave_logging_as_it_was():
    """The root logger belongs to the whole test run."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_have_the_known_fields_in_order():
    """Whatever order the caller used, people and programs find the same columns."""
    stream = io.StringIO()
    configure("info", stream=stream)
    structlog.get_logger("controller.runner").info(
        "status written", zeta=1, name="llm", namespace="team", controller="modeldeployment", reconcileID="r1"
    )
    (line,) = lines(stream)
    assert list(line) == ["ts", "level", "logger", "msg", "controller", "namespace", "name", "reconcileID", "zeta"]
    assert line["logger"] == "controller.runner"
    assert line["msg"] == "status written"
    assert line["ts"].endswith("Z")


def test_an_exception_is_one_line_and_a_stacktrace():
    """`error` can be searched; the stack is beside it, in the same line."""
    stream = io.StringIO()
    configure("info", stream=stream)
    try:
        raise ValueError("no such thing")
    except ValueError:
        structlog.get_logger("x").exception("a rule crashed")
    (line,) = lines(stream)
    assert line["error"] == "ValueError: no such thing"
    assert "Traceback" in line["stacktrace"]


def test_standard_library_loggers_come_out_the_same():
    """A library's warning is a line like ours."""
    stream = io.StringIO()
    configure("info", stream=stream)
    logging.getLogger("some.library").warning("odd %s", "thing")
    logging.getLogger("uvicorn.error").info("chatter")
    (line,) = lines(stream)
    assert (line["logger"], line["level"], line["msg"]) == ("some.library", "warning", "odd thing")


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_may_hold_a_secret_is_named_and_not_shown(form):
    """Environment values, bodies, headers: never, in either form."""
    stream = io.StringIO()
    configure("info", form, stream=stream)
    structlog.get_logger("x").info(
        "seen", env=[{"name": "HF_TOKEN", "value": "hunter2"}], headers={"authorization": "hunter2"}, body=b"hunter2"
    )
    assert "seen" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_levels():
    """What is below the level is not there."""
    stream = io.StringIO()
    configure("warning", stream=stream)
    structlog.get_logger("x").info("no")
    structlog.get_logger("x").warning("yes")
    assert [line["msg"] for line in lines(stream)] == ["yes"]


COLOURS = {"a terminal gets colours": ({}, True), "NO_COLOR takes them away": ({"NO_COLOR": "1"}, False)}


@pytest.mark.parametrize("sentence", COLOURS)
def test_console(sentence):
    """auto means the console form on a terminal."""
    environ, coloured = COLOURS[sentence]
    stream = Terminal()
    configure("info", stream=stream, environ=environ)
    structlog.get_logger("x").info("hello")
    assert "hello" in stream.getvalue()
    assert ("\x1b[" in stream.getvalue()) is coloured
