from __future__ import annotations

import asyncio
import gc
import time
from contextlib import aclosing
from email.utils import formatdate

import pytest

from ostler.core.model import ModelDone
from ostler.models.catalogue import ModelProfile
from ostler.models.providers import Wire
from ostler.models.vendor_errors import error_of_status, retry_after
from ostler.schema.events import TextDelta
from ostler.schema.usage import NOTHING_USED
from ostler.testkit.vendors import FakeVendor, Refusal, Trouble, call, say, turn
from tests.models.wires.wire_cases import KEY, answer_of, ask, every_wire, model_for, request_of

STATUSES = {
    400: "invalid_request",
    401: "authentication_failed",
    402: "invalid_request",
    403: "permission_denied",
    404: "model_not_found",
    408: "server_failed",
    409: "invalid_request",
    413: "context_overflow",
    422: "invalid_request",
    429: "rate_limited",
    500: "server_failed",
    502: "server_failed",
    503: "overloaded",
    504: "server_failed",
    529: "overloaded",
}


@every_wire
@pytest.mark.parametrize("status", STATUSES)
async def test_every_status_has_its_failure(wire: Wire, status: int) -> None:
    async with FakeVendor([Refusal(status, "the vendor's own words")]) as vendor:
        answer = await ask(vendor, wire)
        assert len(vendor.requests) == 1
    failure = answer.failure.failure
    assert failure.kind == STATUSES[status]
    assert failure.status == status
    assert "the vendor's own words" in failure.message and str(status) in failure.message
    assert failure.request_id == "req_0001"
    assert not failure.stream_opened
    assert answer.failure.usage == NOTHING_USED, "a refusal is free of charge"


@every_wire
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "This model's maximum context length is 128000 tokens"),
        (413, "Request exceeds the maximum size"),
        (422, "the request exceeds the available context size"),
    ],
)
async def test_a_request_larger_than_the_context_is_recognised(wire: Wire, status: int, message: str) -> None:
    async with FakeVendor([Refusal(status, message)]) as vendor:
        assert (await ask(vendor, wire)).failure.failure.kind == "context_overflow"


async def test_the_vendors_error_code_is_reported() -> None:
    async with FakeVendor([Refusal(400, "too long", code="context_length_exceeded")]) as vendor:
        failure = (await ask(vendor, "chat")).failure.failure
    assert (failure.kind, failure.code) == ("context_overflow", "context_length_exceeded")


@every_wire
async def test_retry_after_is_passed_on(wire: Wire) -> None:
    async with FakeVendor([Refusal(429, headers={"retry-after": "7"})]) as vendor:
        assert (await ask(vendor, wire)).failure.failure.retry_after == 7.0


@pytest.mark.parametrize(
    ("status", "wait", "advice"),
    [
        (429, "45", "wait 45 s, or name another model"),
        (429, "0.2", "wait 1 s, or name another model"),
        (503, "120", "wait 120 s, or name another model"),
        (529, "121", "wait 3 min, or name another model"),
        (429, "86400", "wait 24 h, or name another model"),
        (429, "0", "wait a little, or check the plan and its quota"),
        (429, "", "wait a little, or check the plan and its quota"),
        (401, "45", "check the API key"),
    ],
)
def test_an_error_says_how_long_to_wait(status: int, wait: str, advice: str) -> None:
    error = error_of_status("acme", status, {"retry-after": wait}, b'{"error": "no"}', ())
    assert error.message == f"acme answered {status}: no; {advice}"


def test_retry_after_may_be_a_date_or_milliseconds_or_nonsense() -> None:
    soon = retry_after({"retry-after": formatdate(time.time() + 60, usegmt=True)})
    assert soon is not None and 50 < soon <= 61
    assert retry_after({"retry-after": formatdate(time.time() - 60, usegmt=True)}) == 0.0
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    for nonsense in ("", "soon", "nan", "-3", "inf"):
        assert retry_after({"retry-after": nonsense}) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": "model is loading"}', "model is loading"),
        ('{"object": "error", "message": "no such thing"}', "no such thing"),
        ('{"detail": [{"loc": ["body"], "msg": "not permitted"}]}', "not permitted"),
        ('[{"error": {"message": "in a list"}}]', "in a list"),
        ("plain words\nover two lines", "plain words over two lines"),
        ("<html>a page</html>", "internal server error"),
        ("", "internal server error"),
    ],
)
async def test_the_vendors_message_is_found_in_every_format(body: str, words: str) -> None:
    async with FakeVendor([Refusal(500, body=body)]) as vendor:
        message = (await ask(vendor, "chat")).failure.failure.message
    assert words in message
    assert "\n" not in message


async def test_a_long_error_is_cut_to_its_beginning() -> None:
    async with FakeVendor([Refusal(500, body="x" * 100_000)]) as vendor:
        assert len((await ask(vendor, "chat")).failure.failure.message) < 5000


@every_wire
async def test_a_redirect_is_not_followed(wire: Wire) -> None:
    async with FakeVendor([]) as other:
        target = {"location": f"{other.anthropic_url}/v1/messages"}
        async with FakeVendor([Refusal(307, headers=target)]) as vendor:
            failure = (await ask(vendor, wire)).failure.failure
        assert other.requests == []
    assert failure.kind == "invalid_request" and "redirect" in failure.message


@every_wire
@pytest.mark.parametrize("kind", ["cut", "end", "malformed"])
@pytest.mark.parametrize("after", [0, 1, 3, 5])
async def test_an_answer_that_breaks_off_is_a_failure(wire: Wire, kind: str, after: int) -> None:
    answer = turn(say(*"abcdefgh"), trouble=Trouble(kind, after))  # type: ignore[arg-type]
    async with FakeVendor([answer]) as vendor:
        failure = (await ask(vendor, wire)).failure.failure
    assert failure.kind == "stream_broken"
    assert failure.stream_opened


@every_wire
async def test_what_came_before_the_break_has_been_streamed(wire: Wire) -> None:
    async with FakeVendor([turn(say(*"abcdefgh"), trouble=Trouble("cut", 5))]) as vendor:
        answer = await ask(vendor, wire)
    text = "".join(event.text for event in answer.events if isinstance(event, TextDelta))
    assert text and "abcdefgh".startswith(text)


async def test_a_broken_answer_reports_the_usage_so_far() -> None:
    async with FakeVendor([turn(say(*"abcd"), trouble=Trouble("cut", 4))]) as vendor:
        usage = (await ask(vendor, "anthropic")).failure.usage
    assert (usage.input_tokens, usage.source) == (10, "reported")


@every_wire
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("overloaded_error", "overloaded"),
        ("rate_limit_error", "rate_limited"),
        ("api_error", "server_failed"),
        ("something_new", "server_failed"),
        ("context_length_exceeded", "context_overflow"),
    ],
)
async def test_an_error_inside_the_stream_has_its_failure(wire: Wire, code: str, kind: str) -> None:
    trouble = Trouble("error", 4, code=code, message="what went wrong")
    async with FakeVendor([turn(say(*"abcdefgh"), trouble=trouble)]) as vendor:
        failure = (await ask(vendor, wire)).failure.failure
    assert (failure.kind, failure.code) == (kind, code)
    assert failure.stream_opened and "what went wrong" in failure.message


async def test_chat_needs_no_done_marker_after_its_finish_reason() -> None:
    async with FakeVendor([turn("Hello", usage=None, trouble=Trouble("end", 3))]) as vendor:
        assert (await ask(vendor, "chat")).done.stop_reason == "end"


@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
async def test_an_answer_that_is_no_stream_is_a_failure(content_type: str) -> None:
    page = Refusal(200, headers={"content-type": content_type}, body="<html>welcome</html>")
    async with FakeVendor([page]) as vendor:
        failure = (await ask(vendor, "chat")).failure.failure
    assert failure.kind == "stream_broken" and "base URL" in failure.message


async def test_an_error_with_status_200_is_still_that_error() -> None:
    async with FakeVendor([Refusal(200, body='{"error": {"message": "slow down", "code": 429}}')]) as vendor:
        assert (await ask(vendor, "chat")).failure.failure.kind == "rate_limited"


@every_wire
async def test_a_server_that_is_not_there_is_named(wire: Wire) -> None:
    async with FakeVendor([]) as vendor:
        url = vendor.base_url(wire)
    model = model_for(wire, url)
    failure = (await answer_of(model, request_of())).failure.failure
    await model.aclose()
    assert failure.kind == "connection_failed" and not failure.stream_opened
    assert url.split("/")[2] in failure.message and "refused" in failure.message


@pytest.mark.parametrize("reset", [False, True])
async def test_a_server_that_hangs_up_without_an_answer_has_broken_off(reset: bool) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}]}")
        if reset:
            writer.transport.abort()
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = model_for("chat", f"http://127.0.0.1:{port}/v1")
        failure = (await answer_of(model, request_of())).failure.failure
        await model.aclose()
    assert (failure.kind, failure.stream_opened) == ("stream_broken", True)
    assert f"127.0.0.1:{port} closed the connection without an answer" in failure.message


async def test_a_name_that_does_not_exist_is_named() -> None:
    model = model_for("chat", "http://no-such-host.invalid/v1")
    failure = (await answer_of(model, request_of())).failure.failure
    await model.aclose()
    assert failure.kind == "connection_failed" and "no-such-host.invalid" in failure.message


async def test_a_plain_server_behind_an_https_address_is_a_failure() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        model = model_for("chat", f"https://{host}:{port}/v1")
        failure = (await answer_of(model, request_of())).failure.failure
        await model.aclose()
    assert failure.kind == "connection_failed" and "TLS" in failure.message


@every_wire
@pytest.mark.parametrize("place", ["status", "stream", "header"])
async def test_the_key_is_in_no_failure(wire: Wire, place: str) -> None:
    error_text = f"bad key {KEY} was given"
    answers = {
        "status": Refusal(401, error_text, code=KEY),
        "stream": turn(say(*"abc"), trouble=Trouble("error", 2, code=KEY, message=error_text)),
        "header": Refusal(400, "extra-secret-value came too"),
    }
    settings = ModelProfile(headers={"X-Team": "extra-secret-value"})
    async with FakeVendor([answers[place]]) as vendor:
        url = vendor.base_url(wire).replace("http://", "http://someone:password-in-url@")
        model = model_for(wire, url, settings=settings)
        answer = await answer_of(model, request_of())
        await model.aclose()
        assert vendor.requests[0].headers["x-team"] == "extra-secret-value"
    rendered = repr(answer.failure)
    for secret in (KEY[:7], "extra-secret-value", "password-in-url"):
        assert secret not in rendered


async def test_a_key_at_the_body_limit_is_redacted() -> None:
    long_key = KEY + "x" * 200
    async with FakeVendor([Refusal(500, body="y" * 3950 + long_key)]) as vendor:
        answer = await ask(vendor, "chat", api_key=long_key)
    assert KEY[:7] not in repr(answer.failure) and "yyy" in repr(answer.failure)


async def test_a_key_that_is_no_valid_header_does_not_appear_in_the_error() -> None:
    from ostler.models.wires.chat import ChatModel

    async with FakeVendor([]) as vendor:
        model = ChatModel("m", base_url=vendor.chat_url, api_key=f"{KEY}\n")
        failure = (await answer_of(model, request_of())).failure.failure
        await model.aclose()
    assert failure.kind == "invalid_request" and KEY not in repr(failure)


@every_wire
async def test_closing_the_iterator_closes_the_connection_at_the_server(wire: Wire) -> None:
    async with FakeVendor(
        [turn(say("Hello", "there"), trouble=Trouble("silence", 1 if wire == "gemini" else 4))]
    ) as vendor:
        model = model_for(wire, vendor.base_url(wire))
        async with asyncio.timeout(60), aclosing(model.stream(request_of())) as stream:
            async for batch in stream:
                if any(isinstance(event, TextDelta) for event in batch):
                    break
        async with asyncio.timeout(60):
            await vendor.abandoned.wait()
        await model.aclose()


@every_wire
async def test_cancelling_the_reader_closes_the_connection_at_the_server(wire: Wire) -> None:
    async with FakeVendor(
        [turn(say("Hello"), trouble=Trouble("silence", 1 if wire == "gemini" else 4))]
    ) as vendor:
        model = model_for(wire, vendor.base_url(wire))
        begun = asyncio.Event()

        async def read() -> None:
            async with aclosing(model.stream(request_of())) as stream:
                async for _ in stream:
                    begun.set()

        reader = asyncio.create_task(read())
        async with asyncio.timeout(60):
            await begun.wait()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await vendor.abandoned.wait()
        await model.aclose()


@every_wire
async def test_any_error_of_a_transport_becomes_a_failure(wire: Wire) -> None:
    class Broken:
        async def post(self, url: str, headers: object, body: bytes) -> None:
            raise RuntimeError("wires crossed")

        async def aclose(self) -> None: ...

    model = model_for(wire, "http://127.0.0.1:1", transport=Broken())
    failure = (await answer_of(model, request_of())).failure.failure
    assert failure.kind == "stream_broken" and "wires crossed" in failure.message


# The first loop takes its idle connection with it, as it does if `asyncio.run` is called twice.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@every_wire
def test_one_model_may_be_used_on_one_loop_after_another(wire: Wire) -> None:
    with FakeVendor([turn("One"), turn("Two", call("read", {"path": "a"}))]) as vendor:
        model = model_for(wire, vendor.base_url(wire))
        for _ in range(2):
            assert isinstance(asyncio.run(answer_of(model, request_of())).last, ModelDone)
        assert vendor.connections == 2
    del model
    gc.collect()  # so that the lost connection is reported here, where it is expected


class CountingTransport:
    """Answers with what it was given, and counts the replies that are still open."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        self.is_complete = False
        self.open = 0
        self._body = body

    async def post(self, url: str, headers: object, body: bytes) -> CountingTransport:
        self.open += 1
        return self

    async def read(self) -> bytes:
        piece, self._body = self._body[:10], self._body[10:]
        return piece

    async def aclose(self) -> None:
        self.open -= 1


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'), (200, b"data: {"), (500, b"no")],
)
async def test_every_reply_is_closed_once_however_it_ended(status: int, body: bytes) -> None:
    transport = CountingTransport(status, body)
    model = model_for("chat", transport=transport)
    await answer_of(model, request_of())
    assert transport.open == 0
    async with aclosing(model.stream(request_of())) as stream:
        async for _ in stream:
            break
    assert transport.open == 0


@every_wire
async def test_a_wrong_key_is_refused_as_the_vendor_does(wire: Wire) -> None:
    async with FakeVendor([turn("ok")], api_key="another-key") as vendor:
        failure = (await ask(vendor, wire)).failure.failure
    assert failure.kind == "authentication_failed" and "check the API key" in failure.message
