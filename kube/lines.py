"""A byte stream cut into lines, whatever the chunks are. A watch's objects run to megabytes, so nothing is joined twice."""

from collections.abc import Iterator


class LineSplitter:
    """Feed chunks, take whole lines (without their newline; empty ones are left out). State is the one unfinished line."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    @property
    def rest(self) -> bytes:
        """What came since the last newline."""
        return b"".join(self._pending).strip()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that `chunk` completes."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            piece = chunk[start:end]
            if self._pending:
                self._pending.append(piece)
                piece = b"".join(self._pending)
                self._pending.clear()
            if piece.strip():
                yield piece
            start = end + 1
        if start < len(chunk):
            self._pending.append(chunk[start:])
