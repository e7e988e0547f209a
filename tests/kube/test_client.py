"""The client against a server with faults."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from aiohttp import web
from faulty import Answer, Script, refusal, reply, served, stream

from kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    ConnectFailed,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    RequestTimeout,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
    error_from,
    parse_retry_after,
)
from kube.lines import LineSplitter
from kube.resources import PODS, Resource
from kube.shallow import shallow

CLUSTER = Resource("x.io", "v1", "things", "Thing", namespaced=False)


def page(names: list[str], version: str = "7", more: str = "") -> Answer:
    return reply({"metadata": {"resourceVersion": version, "continue": more}, "items": [{"n": name} for name in names]})


async def collected(script: Script, **options: object) -> list[tuple[int, list[str], bool]]:
    async with served(script) as client:
        return [(p.number, [msgspec.json.decode(item)["n"] for item in p.items], p.last) async for p in client.pages(PODS, **options)]


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        pytest.param(PODS, ("ns", "a", "status"), "/api/v1/namespaces/ns/pods/a/status", id="a subresource of a core object"),
        pytest.param(PODS, (), "/api/v1/pods", id="all namespaces"),
        pytest.param(CLUSTER, ("ignored", "a"), "/apis/x.io/v1/things/a", id="a cluster-scoped kind knows no namespace"),
        pytest.param(PODS, ("ns", "a/../b"), "/api/v1/namespaces/ns/pods/a%2F..%2Fb", id="a name cannot leave its segment"),
    ],
)
def test_paths(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    """A resource's path follows from its group, version, scope and name."""
    assert resource.path(*arguments) == path


class Named(msgspec.Struct, frozen=True):
    n: str


async def test_a_page_is_decoded_straight_into_the_shape_that_was_asked_for() -> None:
    """One walk over the bytes instead of two; the items as they came can still be had."""
    async with served(Script([page(["a", "b"])])) as client:
        (found,) = [each async for each in client.pages(PODS, shape=Named)]
    assert (found.shaped, found.items) == (True, [Named("a"), Named("b")])
    assert [bytes(raw) for raw in found.raws()] == [b'{"n":"a"}', b'{"n":"b"}']
    assert (found.resource_version, found.last) == ("7", True)


async def test_one_item_without_its_shape_leaves_the_whole_page_as_it_came() -> None:
    """Nobody's list is lost for one bad object: the caller looks at each."""
    bad = reply({"metadata": {"resourceVersion": "7"}, "items": [{"n": "a"}, {"n": 1}]})
    async with served(Script([bad])) as client:
        (found,) = [each async for each in client.pages(PODS, shape=Named)]
    assert not found.shaped
    assert [bytes(raw) for raw in found.items] == [bytes(raw) for raw in found.raws()]
    assert [msgspec.json.decode(raw)["n"] for raw in found.items] == ["a", 1]


DEEP = b'{"n":"deep","managedFields":' + b'{"f:a":[' * 4500 + b"1" + b"]}" * 4500 + b"}"


@pytest.mark.parametrize("shape", [None, Named])
async def test_an_object_deeper_than_the_decoder_bears_hides_no_other(shape: type[Named] | None) -> None:
    """Anybody who may create one object of a kind could otherwise keep everybody from reading any."""
    listed = web.Response(body=b'{"metadata":{"resourceVersion":"7"},"items":[{"n":"a"},' + DEEP + b',{"n":"b"}]}')
    async with served(Script([listed])) as client:
        (found,) = [each async for each in client.pages(PODS, shape=shape)]
    assert [msgspec.json.decode(raw)["n"] for raw in found.raws()] == ["a", "deep", "b"]


async def test_an_event_deeper_than_the_decoder_bears_is_an_event() -> None:
    """Nor could a watch go past it."""
    lines = [b'{"type":"ADDED","object":' + DEEP + b"}\n", b'{"type":"DELETED","object":{"n":"b"}}\n']
    async with served(Script([stream(*lines)])) as client, aclosing(client.watch(PODS, resource_version="7")) as events:
        seen = [(event.type, msgspec.json.decode(event.object)["n"]) async for event in events]
    assert seen == [("ADDED", "deep"), ("DELETED", "b")]


@pytest.mark.parametrize(
    ("text", "depth", "cut"),
    [
        pytest.param(b'{"a":[1,{"b":[2]}],"c":{"d":{}}}', 2, b'{"a":[1,null],"c":{"d":null}}', id="what lies below the depth is null"),
        pytest.param(b'{"a":"[[[{\\"","b":[[]]}', 2, b'{"a":"[[[{\\"","b":[null]}', id="brackets in texts are none"),
        pytest.param(b'{"a":"\\\\","b":[[]]}', 2, b'{"a":"\\\\","b":[null]}', id="a text that ends in a backslash ends"),
        pytest.param(b'[[],[[1],"x"],[]]', 2, b'[[],[null,"x"],[]]', id="several, one after the other"),
        pytest.param(b"[[[1", 2, b"[[null", id="what is no JSON stays none"),
        pytest.param(b"7", 2, b"7", id="nothing to cut"),
    ],
)
def test_what_is_too_deep_is_cut_off(text: bytes, depth: int, cut: bytes) -> None:
    """And nothing else is touched."""
    assert shallow(text, depth) == cut


def test_an_empty_name_is_no_collection() -> None:
    """Deleting the object "" must not delete the collection."""
    with pytest.raises(ValueError, match="whole collection"):
        PODS.path("ns", "")


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (418, "", ApiError),
    ],
)
def test_the_error_tree(code: int, reason: str, kind: type[ApiError]) -> None:
    """Each refusal is the type that its code and reason name, with the server's words."""
    error = error_from(code, msgspec.json.encode({"code": code, "reason": reason, "message": "m"}))
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, "m")


@pytest.mark.parametrize(("text", "seconds"), [("3", 3.0), ("0", 0.0), (None, None), ("soon", None), ("-1", None), ("inf", None)])
def test_retry_after(text: str | None, seconds: float | None) -> None:
    """Only a count of seconds is heeded."""
    assert parse_retry_after(text) == seconds


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="whole lines"),
        pytest.param([b"a", b"b", b"c\nd"], [b"abc"], id="a line over three chunks, an unfinished one kept back"),
        pytest.param([b"\n\r\n", b"a\n"], [b"a"], id="empty lines are no events"),
    ],
)
def test_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    """Lines come whole whatever the chunks are."""
    splitter = LineSplitter()
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines


async def test_a_list_is_walked_page_by_page() -> None:
    """Each request carries the limit and the token of the page before."""
    script = Script([page(["a", "b"], more="t1"), page(["c"])])
    assert await collected(script, limit=2, label_selector="k=v") == [(0, ["a", "b"], False), (1, ["c"], True)]
    assert [seen.query for seen in script.seen] == [
        {"limit": "2", "labelSelector": "k=v"},
        {"limit": "2", "labelSelector": "k=v", "continue": "t1"},
    ]


async def test_an_expired_continue_token_restarts_the_list() -> None:
    """After a 410 in the middle the pages are numbered from 0 again, so that nobody mixes two lists."""
    script = Script([page(["a"], more="t1"), refusal(410, "Expired"), page(["a"], more="t2"), page(["b"])])
    assert [number for number, _, _ in await collected(script)] == [0, 0, 1]


async def test_a_list_that_keeps_expiring_is_asked_for_whole() -> None:
    """The last resort gives up paging, not the list."""
    expiring = [page(["a"], more="t"), refusal(410)] * 3
    script = Script([*expiring, page(["a", "b"])])
    assert (await collected(script))[-1] == (0, ["a", "b"], True)
    assert "limit" not in script.seen[-1].query


async def test_a_410_on_the_first_page_is_told() -> None:
    """Without a token there is nothing to restart."""
    with pytest.raises(Gone):
        await collected(Script([refusal(410)]))


async def test_a_broken_list_is_an_error_and_not_empty() -> None:
    """An answer that is no list raises: zero items would be a lie."""
    with pytest.raises(TransportError):
        await collected(Script([reply([])]))


async def test_a_null_item_list_is_empty() -> None:
    """Go writes null for an empty slice."""
    assert await collected(Script([reply({"metadata": {"resourceVersion": "1"}, "items": None})])) == [(0, [], True)]


@pytest.mark.parametrize(
    ("method", "answers", "sends", "raised"),
    [
        pytest.param("get", [refusal(500), refusal(503), reply({})], 3, None, id="a read outlives 5xx"),
        pytest.param("get", [refusal(429), reply({})], 2, None, id="a read outlives 429"),
        pytest.param("get", [refusal(404), reply({})], 1, NotFound, id="a definite answer is not asked again"),
        pytest.param("get", [refusal(500)], 4, ServerError, id="a read gives up after four sends"),
        pytest.param("get", [stream(b"{", cut=True), reply({})], 2, None, id="a read outlives a broken connection"),
        pytest.param("patch", [refusal(429), reply({})], 2, None, id="a write that was turned away is sent again"),
        pytest.param("patch", [refusal(500), reply({})], 1, ServerError, id="a write that may have happened is not"),
        pytest.param("patch", [stream(b"{", cut=True), reply({})], 1, TransportError, id="nor one whose answer was lost"),
        pytest.param("patch", [refusal(409), reply({})], 1, Conflict, id="a conflict is never replayed"),
    ],
)
async def test_retries(method: str, answers: list[Answer], sends: int, raised: type[KubeError] | None) -> None:
    """The error's type and the verb decide whether a request is sent again."""
    script = Script(answers)
    async with served(script) as client:
        call = client.get(PODS, "a", "ns") if method == "get" else client.patch(PODS, "a", b"{}", "ns")
        if raised:
            with pytest.raises(raised):
                await call
        else:
            await call
    assert len(script.seen) == sends


async def test_waits_grow_and_heed_the_server() -> None:
    """Backoff doubles with jitter; Retry-After overrides it."""
    script = Script([refusal(503), refusal(503), refusal(429, **{"Retry-After": "7"}), reply({})])
    async with served(script) as client:
        await client.get(PODS, "a", "ns")
    assert script.slept == pytest.approx([0.2, 0.4, 7.7])


async def test_no_connection_is_told_as_such() -> None:
    """A refused connection is ConnectFailed after its retries."""
    script = Script([reply({})])
    async with served(script) as client:
        client._session._access = type(client._session._access)("http://127.0.0.1:1", None, None, None, None, "d", None)
        with pytest.raises(ConnectFailed):
            await client.patch(PODS, "a", b"{}", "ns")
    assert len(script.slept) == 3


async def test_a_connection_that_never_comes_is_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets that are dropped: nothing was sent, so that a write may be sent again; a request without an answer is another thing."""

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    script = Script([reply({})])
    async with served(script) as client:
        monkeypatch.setattr("kube.session.CONNECT_SECONDS", 0.01)
        monkeypatch.setattr("aiohappyeyeballs.start_connection", never)
        monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", never)
        with pytest.raises(ConnectFailed, match="no connection within"):
            await client.patch(PODS, "a", b"{}", "ns")
    assert len(script.slept) == 3


async def watched(script: Script) -> list[tuple[str, object]]:
    async with served(script) as client, aclosing(client.watch(PODS, "ns", resource_version="5")) as events:
        return [(event.type, msgspec.json.decode(event.object)) async for event in events]


async def test_a_watch_asks_for_bookmarks_from_its_version() -> None:
    """The request names the version, the bookmarks and the server's time-out; lines may be cut anywhere."""
    script = Script([stream(b'{"type":"ADDED","object":{"a":', b'1}}\n{"type":"BOOKMARK","object":{}}\n')])
    assert await watched(script) == [("ADDED", {"a": 1}), ("BOOKMARK", {})]
    assert script.seen[0].query == {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "5", "timeoutSeconds": "300"}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal(410, "Expired"), id="as an HTTP status"),
        pytest.param(stream(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'), id="as an ERROR line"),
    ],
)
async def test_a_watch_from_too_long_ago_is_gone(answer: Answer) -> None:
    """Either form of 410 raises Gone, for the caller to list again."""
    with pytest.raises(Gone):
        await watched(Script([answer]))


async def test_a_watch_that_breaks_is_no_watch_that_ended() -> None:
    """A cut stream raises; events may have been lost with it."""
    with pytest.raises(TransportError):
        await watched(Script([stream(b'{"type":"ADDED","object":{}}\n', cut=True)]))


async def test_a_line_that_is_no_event_breaks_the_watch() -> None:
    """Garbage is an error, not something to skip."""
    with pytest.raises(TransportError):
        await watched(Script([stream(b"<html>\n")]))


async def test_a_watch_whose_headers_never_come_is_given_up_before_its_own_life_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs before the headers is a broken watch soon, not a quiet kind for minutes."""
    monkeypatch.setattr("kube.client.WATCH_ANSWER_SECONDS", 0.05)

    async def hang(_: web.Request) -> web.StreamResponse:
        return await asyncio.get_running_loop().create_future()

    with pytest.raises(RequestTimeout, match=r"within 0\.05 s"):
        await watched(Script([hang]))


async def test_writes_say_what_they_mean() -> None:
    """Content types, field manager, dry run, force and preconditions travel as the API spells them."""
    script = Script([reply({})])
    async with served(script) as client:
        await client.create(PODS, b"{}", "ns", dry_run=True, field_manager="me")
        await client.replace(PODS, "a", b"{}", "ns", subresource="status")
        await client.patch(PODS, "a", b"{}", "ns", kind="apply", field_manager="me", force=True)
        await client.patch(PODS, "a", b"{}", "ns", subresource="status")
        await client.delete(PODS, "a", "ns", uid="u", resource_version="3", grace_seconds=0)
    assert [(s.method, s.path.removeprefix("/api/v1/namespaces/ns"), s.query, s.headers.get("Content-Type")) for s in script.seen] == [
        ("POST", "/pods", {"dryRun": "All", "fieldManager": "me"}, "application/json"),
        ("PUT", "/pods/a/status", {}, "application/json"),
        ("PATCH", "/pods/a", {"fieldManager": "me", "force": "true"}, "application/apply-patch+yaml"),
        ("PATCH", "/pods/a/status", {}, "application/merge-patch+json"),
        ("DELETE", "/pods/a", {}, "application/json"),
    ]
    assert msgspec.json.decode(script.seen[-1].body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
        "gracePeriodSeconds": 0,
    }


async def test_an_empty_uid_is_no_precondition() -> None:
    """A delete that would match whatever bears the name is refused before it is sent."""
    script = Script([reply({})])
    async with served(script) as client:
        with pytest.raises(ValueError, match="UID"):
            await client.delete(PODS, "a", "ns", uid="")
    assert script.seen == []


async def test_discovery() -> None:
    """A kind is served when its group's list names it; no such group is no error."""
    script = Script([reply({"resources": [{"name": "pods"}]}), refusal(404), reply({"gitVersion": "v1.31"})])
    async with served(script) as client:
        assert await client.serves(PODS)
        assert not await client.serves(CLUSTER)
        assert (await client.version())["gitVersion"] == "v1.31"


@pytest.mark.parametrize("status", [302, 307, 304])
async def test_a_redirect_is_no_answer(status: int) -> None:
    """A proxy that asks for a login has deleted nothing, and its page is no object."""
    script = Script([reply("log in here", status, Location="http://127.0.0.1:1/login")])
    async with served(script) as client:
        with pytest.raises(ApiError) as caught:
            await client.delete(PODS, "a", "ns")
        assert caught.value.code == status
        with pytest.raises(ApiError):
            await client.get(PODS, "a", "ns")
    assert [seen.path for seen in script.seen] == ["/api/v1/namespaces/ns/pods/a"] * 2


async def test_a_watch_that_ends_within_a_line_is_no_watch_that_ended() -> None:
    """The half event would be lost."""
    script = Script([stream(b'{"type":"ADDED","object":{}}\n{"type":"MODI')])
    async with served(script) as client, aclosing(client.watch(PODS, resource_version="1")) as events:
        assert (await anext(events)).type == "ADDED"
        with pytest.raises(TransportError, match="middle of a line"):
            await anext(events)
