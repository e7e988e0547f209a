"""The C allocator, told once that large buffers go back to the system.

A list of a large cluster comes in pages of megabytes. glibc takes the first one that is freed for the usual thing and puts all that follow
into its heap; what small objects then lie between them keeps a tenth of the process resident for ever. A threshold that is set stays.
"""

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD = -3
LARGE_BYTES = 1 << 20


def return_large_buffers() -> None:
    """Without effect where the C library has no `mallopt` (macOS, Windows) or does nothing with it (musl)."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
