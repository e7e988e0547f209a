"""JSON of any depth made fit for a decoder that recurses.

An API server takes objects nested ten thousand deep, and anybody who may create one can have it so: what `metadata.managedFields` holds is
the writer's to choose. Our decoder gives up at a tenth of that, and one such object would hide every other object of its kind. What lies
deeper than any field that somebody reads is therefore cut off, by a scan that recurses nowhere. It is done only where decoding failed.
"""

import re
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

# Ten times as deep as the fields of any kind; a fifth of what the decoder bears, for others have called it.
DEPTH: Final = 200

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """What `decode` makes of an object; of one that is too deep for it, of what is not too deep. Raises what `decode` raises."""
    try:
        return decode(data)
    except RecursionError:
        return decode(shallow(data))


def shallow(data: bytes, depth: int = DEPTH) -> bytes:
    """The same text with `null` for every object and array below so many others. What is no JSON stays none."""
    kept: list[bytes] = []
    level = start = 0
    for token in _TOKEN.finditer(data):
        match data[token.start()]:
            case 0x5B | 0x7B:
                level += 1
                if level == depth + 1:
                    kept += (data[start : token.start()], b"null")
                    start = len(data)  # until it is closed
            case 0x5D | 0x7D:
                level -= 1
                if level == depth:
                    start = token.end()
    kept.append(data[start:])
    return b"".join(kept)
