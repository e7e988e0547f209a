"""Every setting as a command-line flag, made from `Settings` itself, so that no flag can be forgotten or misnamed."""

import functools
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click
from click.core import ParameterSource

from app.layers import SettingsError
from app.settings import ATTRIBUTES, FIELDS, Effective, flag, load, variable

F = TypeVar("F", bound=Callable[..., Any])


def with_settings(*keys: str) -> Callable[[F], F]:
    """Give a verb `--config` and a flag for each of those settings (all of them by default); it receives `effective`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, config: Path | None, **values: Any) -> Any:
            context = click.get_current_context()
            given: dict[str, Any] = {}
            for key in keys or FIELDS:
                value = values.pop(ATTRIBUTES[key])
                if context.get_parameter_source(ATTRIBUTES[key]) is ParameterSource.COMMANDLINE:
                    given[key] = value
            try:
                effective: Effective = load(config=config, environ=os.environ, flags=given)
            except SettingsError as error:
                raise click.UsageError(str(error)) from error
            return function(*args, effective=effective, **values)

        decorated: Any = call
        for key in sorted(keys or FIELDS, reverse=True):
            decorated = _option(key)(decorated)
        return click.option(  # type: ignore[no-any-return]  # click's decorators are untyped over their function
            "--config", type=click.Path(path_type=Path, dir_okay=False), help="Settings file (YAML). [MODELWARDEN_CONFIG]"
        )(decorated)

    return decorate


def _option(key: str) -> Callable[[Any], Any]:
    field = FIELDS[key]
    description = field.description or ""
    help_text = f"{description[:1].upper()}{description[1:]}. [{variable(key)}]"
    kind = _plain(field.annotation)
    name = ATTRIBUTES[key]
    if kind is bool:
        return click.option(f"{flag(key)}/--no-{flag(key)[2:]}", name, default=None, help=help_text)
    if get_origin(kind) is Literal:
        return click.option(flag(key), name, type=click.Choice(get_args(kind)), help=help_text)
    if get_origin(kind) is tuple:
        return click.option(flag(key), name, multiple=True, metavar="TEXT", help=f"{help_text} May be repeated.")
    if kind is int:
        return click.option(flag(key), name, type=int, help=help_text)
    if kind is float:
        return click.option(flag(key), name, type=float, help=help_text)
    return click.option(flag(key), name, metavar="TEXT", help=help_text)


def _plain(annotation: Any) -> Any:
    """The annotation without its `| None`."""
    if get_origin(annotation) in {Union, types.UnionType}:
        return next(a for a in get_args(annotation) if a is not type(None))
    return annotation
