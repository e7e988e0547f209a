"""How much is tried: a few fixed examples in `make test`, many random ones in `make fuzz`."""

import os

from hypothesis import HealthCheck, settings

LONG = os.environ.get("FUZZ") == "long"

EXAMPLES = settings(
    max_examples=1500 if LONG else 25,
    deadline=None,
    derandomize=not LONG,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
"""The short form always tries the same examples, so that a test run is one and the same each time."""
