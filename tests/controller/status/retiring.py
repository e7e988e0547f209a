"""A deployment with a replica under an operation."""

from status_builders import Scene, scene


def leaving(state: str = "Draining", **clocks: float) -> Scene:
    """One replica declared, two running, the second under an operation in that state; a router serves the first."""
    return scene().replicas("a", "b").router().view("a", "!b").retiring(state, "b", **clocks)
