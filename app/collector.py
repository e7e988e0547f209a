"""When Python's cyclic collector looks, for a process that loads much and keeps it: seldom, and while it loads not at all.

Modules, option tables and caches are large and live long. A collector that walks them every few hundred allocations takes a tenth of a
start and a third of a busy process's CPU, and finds nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def relax() -> None:
    """For the rest of the process: look seldom."""
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def resting() -> Iterator[None]:
    """Do not look at all while modules are imported, and never at what they brought; afterwards as before, but seldom."""
    relax()
    looking = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # they are there for good: the first look would walk them all
        if looking:
            gc.enable()
