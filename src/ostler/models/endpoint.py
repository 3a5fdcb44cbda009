"""`Endpoint`: sends one request and streams the answer, for every wire."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from ostler.core.lazy import lazy_module
from ostler.core.model import ModelEvent, ModelFailure
from ostler.core.secrets import mask
from ostler.models.rate_gate import gate_of
from ostler.models.transport import Reply, Transport, default_transport, request_id
from ostler.schema.errors import InvalidRequest, ModelError, StreamBroken, failure_of
from ostler.schema.events import Warned
from ostler.schema.usage import NOTHING_USED, Usage

if TYPE_CHECKING:
    from ostler.models import vendor_errors
else:
    vendor_errors = lazy_module("ostler.models.vendor_errors")

# The end of the body follows the last frame at once; reading it lets the connection be used again.
_DRAIN_SECONDS = 0.25
_SHORTEST_NOTICE = 1.0


class Decoder(Protocol):
    """Turns the bytes of one answer into events.

    - `feed` returns the events that a read completes. A failure that the vendor reports is the last of them.
    - `finished` is set at the wire's final event.
    - `end` is called once at the end of the body, unless `feed` returned a failure. Its last event is the
      answer, or the failure of an answer that was cut off.
    """

    finished: bool
    request_id: str

    def feed(self, data: bytes) -> list[ModelEvent]: ...

    def end(self) -> list[ModelEvent]: ...

    def usage(self) -> Usage:
        """The usage that the vendor has reported so far."""
        ...


class Endpoint:
    """An address of a vendor, with its headers, transport and rate gate."""

    def __init__(
        self,
        provider: str,
        url: str,
        headers: Mapping[str, str],
        *,
        secret: str,
        extra_headers: Mapping[str, str],
        transport: Transport | None,
    ) -> None:
        self._provider = provider
        self._url = url
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "user-agent": "ostler",
            **headers,
            **{name.lower(): value for name, value in extra_headers.items()},
        }
        self._secrets = _secrets(url, secret, extra_headers)
        self._gate = gate_of(urlsplit(url).netloc, secret)
        self._transport = transport
        self._owns_transport = transport is None

    async def aclose(self) -> None:
        """Closes the transport, unless the caller provided it."""
        if self._owns_transport and self._transport is not None:
            await self._transport.aclose()

    async def stream(
        self, build: Callable[[], bytes], make_decoder: Callable[[], Decoder]
    ) -> AsyncGenerator[list[ModelEvent], None]:
        """The events of one attempt, a batch for each read; a read that completes none is an empty batch.

        The decoder is made once there is an answer, so that the first request does not wait for its import.
        """
        try:
            try:
                body = build()
            except (TypeError, ValueError) as error:
                raise InvalidRequest(f"the request cannot be encoded as JSON: {error}") from error
            notice = self._waiting_notice()
            while pause := self._gate.pause(self._provider):
                yield notice  # even an empty batch resets the caller's timeout
                notice = []
                await asyncio.sleep(pause)
            reply = await self._get_transport().post(self._url, self._headers, body)
        except ModelError as error:
            yield [self._failure(error, make_decoder())]
            return
        except Exception as error:
            yield [self._failure(_unexpected(error, stream_opened=False), make_decoder())]
            return
        decoder = make_decoder()
        try:
            if not _is_stream(reply):
                refusal = await self._refusal(reply)
                if reply.status == 429:
                    self._gate.refused(refusal.retry_after)
                yield [self._failure(refusal, decoder)]
                return
            self._gate.admitted()
            decoder.request_id = mask(request_id(reply.headers))
            events: list[ModelEvent] = []
            while piece := await reply.read():
                events = decoder.feed(piece)
                if decoder.finished:
                    break
                yield events
                events = []
            if not (events and isinstance(events[-1], ModelFailure)):
                if decoder.finished and not reply.is_complete:
                    await _drain(reply)
                events += decoder.end()
            if isinstance(events[-1], ModelFailure):
                events[-1] = self._redacted(events[-1])
            yield events
        except ModelError as error:
            yield [self._failure(error, decoder)]
        except Exception as error:
            yield [self._failure(_unexpected(error, stream_opened=True), decoder)]
        finally:
            await reply.aclose()

    def _waiting_notice(self) -> list[ModelEvent]:
        left = self._gate.seconds_left()
        if left < _SHORTEST_NOTICE:
            return []
        return [Warned(f"{self._provider} has reached its rate limit: waiting for {math.ceil(left)} s")]

    def _get_transport(self) -> Transport:
        if self._transport is None:
            self._transport = default_transport(self._url)
        return self._transport

    def _failure(self, error: ModelError, decoder: Decoder) -> ModelFailure:
        # A refused request is free of charge; one that was accepted and then lost may not be.
        was_accepted = error.stream_opened or isinstance(error, StreamBroken)
        usage = decoder.usage() if was_accepted else NOTHING_USED
        return self._redacted(ModelFailure(failure_of(error), usage))

    def _redacted(self, event: ModelFailure) -> ModelFailure:
        failure = event.failure
        message = vendor_errors.one_line(failure.message, self._secrets)
        code = vendor_errors.one_line(failure.code, self._secrets)
        return replace(event, failure=replace(failure, message=message, code=code))

    async def _refusal(self, reply: Reply) -> ModelError:
        # Reads beyond the limit, so that a key at the limit is whole and can be redacted.
        limit = vendor_errors.BODY_LIMIT + max(map(len, self._secrets), default=0)
        body = b""
        while len(body) < limit and (piece := await reply.read()):
            body += piece
        if 200 <= reply.status < 300:
            return _not_a_stream(self._provider, reply, body)
        return vendor_errors.error_of_status(
            self._provider, reply.status, reply.headers, body[:limit], self._secrets
        )


def _is_stream(reply: Reply) -> bool:
    kind = reply.headers.get("content-type", "")
    return 200 <= reply.status < 300 and not kind.startswith(("application/json", "text/html"))


def _not_a_stream(provider: str, reply: Reply, body: bytes) -> ModelError:
    error = vendor_errors.read_error(body)
    if b'"error"' in body and error.message:
        reported = {"message": error.message, "type": error.kind, "code": error.status or error.code}
        return vendor_errors.error_in_stream(provider, reported, request_id=request_id(reply.headers))
    kind = reply.headers.get("content-type", "nothing")
    message = f"{provider} answered with {kind} instead of an event stream; check the base URL"
    return StreamBroken(message, status=reply.status, stream_opened=True)


async def _drain(reply: Reply) -> None:
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while await reply.read():
                pass
    except (TimeoutError, ModelError):
        return  # the answer is complete; only the connection is lost


def _unexpected(error: Exception, *, stream_opened: bool) -> ModelError:
    return StreamBroken(f"the exchange failed: {type(error).__name__}: {error}", stream_opened=stream_opened)


def _secrets(url: str, secret: str, extra_headers: Mapping[str, str]) -> tuple[str, ...]:
    parts = urlsplit(url)
    secrets = {secret, parts.username or "", parts.password or "", *extra_headers.values()}
    secrets |= {value for _, value in parse_qsl(parts.query)}
    return tuple(sorted(filter(None, secrets), key=len, reverse=True))
