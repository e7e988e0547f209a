"""A few storms over a sharded fleet; `make simulate` takes hundreds."""

import pytest

from tests.simulation.fleets import play


@pytest.mark.parametrize("seed", [4, 7])
def test_a_stormy_fleet_has_one_writer_a_deployment(seed: int) -> None:
    """Five replicas die, pause, return and lose the API; no deployment has two writers, gaps are bounded, shares come out even."""
    fate = play(seed, 45.0)
    assert fate.broken == "", "\n".join(fate.log)
