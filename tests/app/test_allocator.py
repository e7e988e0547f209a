"""The allocator is told, and nothing depends on it."""

import ctypes

import pytest

from app import allocator


def test_a_c_library_without_the_switch_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS and Windows have no `mallopt`; the process starts all the same."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    allocator.return_large_buffers()


def test_the_threshold_is_set_once_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a list is larger than the threshold, a small object is not."""
    told = []
    library = type("Library", (), {"mallopt": staticmethod(lambda *switch: told.append(switch))})
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library())
    allocator.return_large_buffers()
    assert told == [(-3, 1 << 20)]
