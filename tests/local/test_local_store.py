"""The store: versions, pages of an older version, and what a selector's follower is told."""

from typing import Any

import pytest

from local.kinds import PODS
from local.reads import ListQuery, select
from local.statuses import StatusError
from local.store import ADDED, DELETED, MODIFIED, MOST_BEHIND, Store, Watcher

TABLE = PODS.table


def _pod(name: str, *, namespace: str = "a", label: str = "x") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}", "labels": {"l": label}},
    }


def _filled(*names: str, history: int = 100) -> Store:
    store = Store(history)
    for name in names:
        store.put(TABLE, ("a", name), _pod(name))
    return store


def _names(bodies: list[bytes]) -> list[str]:
    import json

    return [json.loads(body)["metadata"]["name"] for body in bodies]


def test_versions_rise_over_all_tables() -> None:
    """One counter, also for removals."""
    store = _filled("p")
    first = store.revision
    store.put(("", "other"), ("", "o"), {"metadata": {"name": "o", "uid": "o"}})
    gone = store.remove(TABLE, ("a", "p"), _pod("p"))
    assert (store.revision, gone.rv) == (first + 2, first + 2)
    assert b'"resourceVersion":"%d"' % gone.rv in gone.body


def test_keys_come_in_order_and_by_namespace() -> None:
    """Whatever the order of creation."""
    store = Store()
    for namespace, name in (("b", "1"), ("a", "2"), ("a-b", "0"), ("a", "10")):
        store.put(TABLE, (namespace, name), _pod(name, namespace=namespace))
    assert store.table(TABLE).keys("a") == [("a", "10"), ("a", "2")]
    assert [key[0] for key in store.table(TABLE).keys("")] == ["a", "a", "a-b", "b"]


def test_later_pages_show_the_first_pages_version() -> None:
    """An object written, one removed and one changed in between do not show."""
    store = _filled("p1", "p2", "p3", "p4")
    first = select(store, PODS, ListQuery(namespace="a", limit=2))
    store.remove(TABLE, ("a", "p3"), _pod("p3"))
    store.put(TABLE, ("a", "p25"), _pod("p25"))
    changed = _pod("p4", label="changed")
    store.put(TABLE, ("a", "p4"), changed)
    second = select(store, PODS, ListQuery(namespace="a", limit=2, token=first.metadata["continue"]))
    assert _names(first.bodies + second.bodies) == ["p1", "p2", "p3", "p4"]
    assert b"changed" not in b"".join(second.bodies)
    assert second.metadata == {"resourceVersion": first.metadata["resourceVersion"]}
    assert first.metadata["remainingItemCount"] == 2


def test_a_page_whose_version_is_forgotten_is_410() -> None:
    """The history is bounded; a list is never patched together from two versions."""
    store = _filled("p1", "p2", "p3", history=2)
    page = select(store, PODS, ListQuery(limit=1))
    for _ in range(3):
        store.put(TABLE, ("a", "p1"), _pod("p1"))
    with pytest.raises(StatusError) as refused:
        select(store, PODS, ListQuery(limit=1, token=page.metadata["continue"]))
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


def test_a_full_last_page_has_no_token() -> None:
    """A reader must not be sent for an empty page."""
    assert "continue" not in select(_filled("p1", "p2"), PODS, ListQuery(limit=2)).metadata


def test_selected_pages_do_not_count_what_remains() -> None:
    """Nobody has counted."""
    page = select(_filled("p1", "p2", "p3"), PODS, ListQuery(limit=1, labels="l=x"))
    assert "remainingItemCount" not in page.metadata
    assert page.metadata["continue"]


STORIES: dict[str, tuple[list[str | None], list[str]]] = {
    "comes and changes and goes": (["x", "x", None], [ADDED, MODIFIED, DELETED]),
    "enters later": (["y", "x"], [ADDED]),
    "leaves and is gone to the follower": (["x", "y", None], [ADDED, DELETED]),
    "was never seen": (["y", "y", None], []),
    "leaves and comes back": (["x", "y", "x"], [ADDED, DELETED, ADDED]),
}


@pytest.mark.parametrize(("labels", "told"), STORIES.values(), ids=STORIES)
def test_what_a_selectors_follower_is_told(labels: list[str | None], told: list[str]) -> None:
    """An object that no longer matches is deleted to whoever selected it."""
    store = Store()
    watcher = Watcher("", lambda entry: entry.labels.get("l") == "x")
    store.table(TABLE).watchers.add(watcher)
    for label in labels:
        if label is None:
            store.remove(TABLE, ("a", "p"), _pod("p"))
        else:
            store.put(TABLE, ("a", "p"), _pod("p", label=label))
    assert [kind for kind, _ in watcher.queue] == told


def test_a_line_is_encoded_once_for_all_who_watch() -> None:
    """Fan-out costs a reference."""
    store = Store()
    watchers = [Watcher("", None), Watcher("a", None), Watcher("b", None)]
    store.table(TABLE).watchers.update(watchers)
    store.put(TABLE, ("a", "p"), _pod("p"))
    assert [len(watcher.queue) for watcher in watchers] == [1, 1, 0]
    (kind, change), (_, same) = watchers[0].queue[0], watchers[1].queue[0]
    assert change.line(kind, "v1", bytes) is same.line(kind, "v1", bytes)


def test_owners_are_indexed_while_they_are_referred_to() -> None:
    """The collector finds dependents without looking at every object."""
    store = Store()
    child = _pod("p")
    child["metadata"]["ownerReferences"] = [{"uid": "boss"}]
    store.put(TABLE, ("a", "p"), child)
    assert store.owned == {"boss": {(TABLE, ("a", "p"))}}
    store.put(TABLE, ("a", "p"), _pod("p"))
    assert store.owned == {}


def test_a_watcher_that_does_not_read_is_dropped() -> None:
    """What it has not read is let go, and nothing more is kept for it: its client begins again from the version it reached."""
    store = Store(history=10)
    watcher = Watcher("", None)
    store.table(TABLE).watchers.add(watcher)
    for _ in range(MOST_BEHIND):
        store.put(TABLE, ("a", "p"), _pod("p"))
    assert not watcher.ended
    for _ in range(2):
        store.put(TABLE, ("a", "p"), _pod("p"))
        assert watcher.ended
        assert not watcher.queue
