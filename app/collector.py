"""When Python's cyclic collector looks, for a process that loads much and keeps it: seldom.

Modules, option tables and caches are large and live long. A collector that walks them every few hundred allocations takes a tenth of a
start and a third of a busy process's CPU, and finds nothing.
"""

import gc


def relax() -> None:
    """For the rest of the process."""
    gc.set_threshold(50_000, 20, 50)
