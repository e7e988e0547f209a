"""Quantities are read exactly, and what is none is refused."""

from fractions import Fraction

import pytest

from api.quantity import is_quantity, parse

READ = {
    "0": Fraction(0),
    "12": Fraction(12),
    "-1.5": Fraction(-3, 2),
    "+.5": Fraction(1, 2),
    "1.": Fraction(1),
    "100m": Fraction(1, 10),
    "5n": Fraction(5, 10**9),
    "2k": Fraction(2000),
    "1Ki": Fraction(1024),
    "1.5Gi": Fraction(3 * 1024**3, 2),
    "1e3": Fraction(1000),
    "1E-2": Fraction(1, 100),
    "3E": Fraction(3 * 10**18),
}


@pytest.mark.parametrize(("text", "value"), READ.items(), ids=READ.keys())
def test_a_quantity_is_read_exactly(text: str, value: Fraction) -> None:
    """No float stands between the text and its value."""
    assert parse(text) == value


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1K", "1GiB", "e3", "1e", "--1", "1_0", "١", "0x10"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """Blanks, unknown suffixes, underscores and foreign digits do not read as a quantity."""
    assert not is_quantity(text)


def test_a_bool_is_no_quantity() -> None:
    """Python counts True as 1; a quantity does not."""
    assert not is_quantity(True)
    assert is_quantity(1)
