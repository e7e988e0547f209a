"""`mdctl run`, which is `make run`: everything on this machine."""

import fcntl
import math
import os
import sys
from pathlib import Path
from typing import IO, Any

import click

from app.flags import with_settings
from app.settings import Effective

STATE_DIR = Path(".run")

# What makes sense to choose on a laptop; the rest is fixed by the run itself.
CHOICES = (
    "act",
    "fence.scalerUsernames",
    "instance-host-path-volume-allowed",
    "instance-privileged-allowed",
    "kueue",
    "log.level",
    "model-deployment-kv-cache-dtype-owned",
    "observers.enabled",
    "reservedNamespaces",
)


class _Speed(click.FloatRange):
    """A range that a number has to be in: that what is no number is below no bound and above none does not let it in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The factor. Fails with the range."""
        speed = super().convert(value, param, ctx)
        if math.isnan(speed):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return speed


@click.command("run", short_help="Run everything here: embedded cluster, webhooks, controller, a scenario.")
@click.option("--scenario", "name", default="prefill-decode", show_default=True, help="A scenario's name, or a file; 'none' plays nothing.")
@click.option("--once", is_flag=True, help="Play the scenario, print the final statuses as YAML, end.")
@click.option("--speed", type=_Speed(0.001, 10000), default=1.0, show_default=True, help="How much faster than written.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the cluster's API; 0 takes a free one.")
@click.option(
    "--keep-state", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Keep kubeconfig, keys and log in DIR afterwards."
)
@click.option("--list", "listing", is_flag=True, help="List the scenarios and end.")
@with_settings(*CHOICES)
def command(*, effective: Effective, name: str, once: bool, speed: float, port: int, keep_state: Path | None, listing: bool) -> None:
    """Run everything on this machine: an embedded cluster, our manifests in it, the service against it, and a scenario.

    On a terminal the table of `kubectl get md -A` updates in place; elsewhere one line is printed per change. The kubeconfig's path is
    shown, so that a real kubectl works beside it. A second run beside this one takes a folder of its own.

    \b
    Examples:
      mdctl run
      mdctl run --once --speed 20 > statuses.yaml
      mdctl run --scenario none --port 7443 --keep-state ./cluster
      mdctl run --scenario ./my-scenario.yaml --speed 5

    \b
    Exit codes:
      0    ended by Ctrl-C; with --once: the statuses came to rest
      1    a port is taken, the scenario or a part of the service failed, or (--once) the statuses did not come to rest
      2    the call itself is wrong, or the scenario cannot be read
      130  --once was interrupted
    """
    from app import collector, lean

    with collector.resting():
        lean.prepare()
        from app import logging, loop
        from app.local_run import LocalRun, Plan, find_scenario, scenario_names

    if listing:
        for known in scenario_names():
            print(known)
        return
    try:
        scenario = find_scenario(name)
    except (LookupError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{name}: {error.strerror}") from error
    state_dir, lock = _claimed(keep_state)
    settings = effective.settings.model_copy(
        update={
            "serve_host": "127.0.0.1",
            "serve_port": 0,
            "serve_drain_seconds": 0.0,
            "serve_page": True,
            "certs_source": "secret",
            "namespace": "modelwarden-system",
            "kubeconfig": None,
            "watch_namespace": None,
            # The Pods of a scenario have made-up addresses, which may be somebody's on this network: nobody is dialled unasked.
            "observers_enabled": effective.settings.observers_enabled and "observers.enabled" in effective.origins,
        }
    )
    plan = Plan(scenario, state_dir, keep_state=keep_state is not None, once=once, speed=speed, port=port)
    with lock, (state_dir / "service.log").open("w", encoding="utf-8") as file:
        logging.configure(settings.log_level, "json", stream=file)
        code = loop.run(lambda stop: LocalRun(plan, settings).run(stop))
    sys.exit(code)


def _claimed(asked: Path | None) -> tuple[Path, IO[str]]:
    """The folder of this run, held by a lock until the file is closed: what one run wrote, no other may overwrite or clear away."""
    chosen = [asked] if asked else [STATE_DIR, *(Path(f"{STATE_DIR}/{number}") for number in range(2, 100))]
    for folder in chosen:
        lock = _lock(folder)
        if lock is not None:
            return folder.resolve(), lock
    raise click.UsageError(f"another run uses {chosen[0]}: end it, or name another folder with --keep-state")


def _lock(folder: Path) -> IO[str] | None:
    """The folder's lock; None while another run holds it."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / "lock").open("w", encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"{folder}: {error.strerror}; name another folder with --keep-state") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
        if _stands(folder / "lock", lock):
            return lock
        lock.close()  # a run that ended in between has cleared the folder away: nobody else would see this lock


def _stands(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
