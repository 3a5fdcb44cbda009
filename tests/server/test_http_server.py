"""A real `ostler serve`: how it ends, what it holds, and runs of other processes that are seen through it."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from contextlib import AsyncExitStack

import pytest

from ostler.testkit.vendors import Trouble, call, say, turn
from tests.server.cut_stream import CutStream
from tests.server.serve_process import ServeProcess, serve_process
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import Serve
from tests.support.open_runs import only_session


async def new_session(server: ServeProcess) -> str:
    async with server.client() as http:
        answer = await http.post("sessions", json={})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


def reading(client: CutStream) -> asyncio.Task[None]:
    return asyncio.ensure_future(client.read())


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_all_streams_and_the_process_at_once(ostler: Ostler, by: signal.Signals) -> None:
    for _ in range(3):  # the machine may stand still for seconds
        if await _seconds_to_end(ostler, by) < 4:
            return
    pytest.fail("it waited for somebody")


async def _seconds_to_end(ostler: Ostler, by: signal.Signals) -> float:
    with serve_process(ostler, "--model", "demo") as server:
        session = await new_session(server)
        clients = [server.follower(session) for _ in range(10)]
        clients.append(CutStream(server.base_url, "/api/v1/events", server.token))
        tasks = [reading(client) for client in clients]
        for client in clients[:-1]:
            await client.reader.until(lambda client=client: client.reader.caught_up)  # type: ignore[misc]
        with _one_that_never_reads(server, session):
            begin = time.monotonic()
            code, said = await asyncio.to_thread(server.end, by)
            took = time.monotonic() - begin
        await asyncio.gather(*tasks)
        assert all(client.is_ended for client in clients)
        assert (code, [line for line in said.splitlines() if "open http" not in line]) == (0, [])
        return took


def _one_that_never_reads(server: ServeProcess, session: str) -> socket.socket:
    stalled = socket.create_connection(("127.0.0.1", int(server.base_url.rpartition(":")[2])))
    request = f"GET /api/v1/sessions/{session}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    request += f"Authorization: Bearer {server.token}\r\nAccept: text/event-stream\r\n\r\n"
    stalled.sendall(request.encode())
    return stalled


async def test_the_server_refuses_connections_without_descriptors_and_keeps_serving(ostler: Ostler) -> None:
    with serve_process(ostler, "--model", "demo", descriptors=160) as server:
        session = await new_session(server)
        asked = {"Accept": "text/event-stream"}
        async with AsyncExitStack() as held, server.client() as http:
            refused, count = None, 0
            while refused is None:
                answer = await held.enter_async_context(
                    http.stream("GET", f"sessions/{session}/events", headers=asked)
                )
                count += 1
                refused = answer if answer.status_code != 200 else None
            assert 40 < count < 160  # the soft limit of 80 was raised
            assert refused.status_code == 503
            assert refused.headers["content-type"] == "application/problem+json"
            assert int(refused.headers["retry-after"]) > 0
            assert (await http.get("sessions")).status_code == 200, "what comes and goes still has room"
        async with server.client() as http, asyncio.timeout(60):
            while True:
                async with http.stream("GET", f"sessions/{session}/events", headers=asked) as answer:
                    if answer.status_code == 200:
                        break


async def test_of_a_crowd_that_comes_at_once_everybody_is_answered(ostler: Ostler) -> None:
    with serve_process(ostler, "--model", "demo", descriptors=160) as server:
        session = await new_session(server)
        address = ("127.0.0.1", int(server.base_url.rpartition(":")[2]))
        request = f"GET /api/v1/sessions/{session}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        request += f"Authorization: Bearer {server.token}\r\nAccept: text/event-stream\r\n\r\n"

        async def come() -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request.encode())
            return int((await reader.readline()).split()[1]), reader, writer

        async with asyncio.timeout(30):
            crowd = await asyncio.gather(*(come() for _ in range(400)))
        statuses = [status for status, _, _ in crowd]
        for _, _, writer in crowd:
            writer.transport.abort()
        assert set(statuses) == {200, 503}
        assert statuses.count(200) < 120
        assert server.end()[0] == 0


async def test_a_run_of_another_process_is_followed_killed_and_taken_up(ostler: Ostler, serve: Serve) -> None:
    words = [f"word{number} " for number in range(400)]
    vendor = serve(turn(say(*words), delay=0.02), turn("after all"))
    running = ostler.start("-p", *use(vendor), "go")
    try:
        wait_until(lambda: vendor.requests)
        session = await asyncio.to_thread(only_session, ostler)
        with serve_process(ostler, *use(vendor)) as server:
            client = server.follower(session)
            task = reading(client)
            await client.reader.until(lambda: any("word9 " in text for text in client.reader.open.values()))
            running.kill()
            running.wait()
            await client.reader.until(lambda: client.reader.caught_up > 1)
            async with server.client() as http:
                assert (await http.get(f"sessions/{session}")).json()["run"]["status"] == "cut"
                go_on = {"type": "prompt", "content": [{"type": "text", "text": "go on"}]}
                assert (await http.post(f"sessions/{session}/requests", json=go_on)).status_code < 300
                await client.reader.until(lambda: client.reader.kinds.count("run_ended") == 2)
                page = (await http.get(f"sessions/{session}/events?limit=5000")).json()
            assert client.reader.facts == page["facts"]
            assert "stream_incomplete" not in client.reader.notices
            server.end()
            await task
    finally:
        finish(running)


async def test_a_question_of_another_process_is_answered_from_the_server(
    ostler: Ostler, serve: Serve
) -> None:
    touch = call("bash", {"command": "touch made"})
    vendor = serve(turn("I begin.", touch), turn("It is made."))
    options = ("--permissions", "edit", "--on-question", "wait")
    assert ostler("-p", *use(vendor), *options, "make it").code == 6
    session = await asyncio.to_thread(only_session, ostler)
    with serve_process(ostler, *use(vendor), "--permissions", "edit") as server:
        client = server.follower(session)
        task = reading(client)
        await client.reader.until(lambda: client.reader.caught_up)
        (asked,) = [fact for fact in client.reader.facts if fact["type"] == "question_asked"]
        async with server.client() as http:
            answer = {"type": "answer", "question": asked["id"], "answer": "yes"}
            await http.post(f"sessions/{session}/requests", json=answer)
        await client.reader.until(lambda: "run_ended" in client.reader.kinds)
        assert (ostler.work / "made").exists(), client.reader.facts[-3:]
        server.end()
        await task


async def test_the_run_of_a_living_process_is_steered_and_stopped_from_the_server(
    ostler: Ostler, serve: Serve
) -> None:
    vendor = serve(turn(say("One half, ", "and"), trouble=Trouble("silence", after=3)))
    running = ostler.start("-p", *use(vendor), "go")
    try:
        wait_until(lambda: vendor.requests)
        session = await asyncio.to_thread(only_session, ostler)
        with serve_process(ostler, *use(vendor)) as server:
            client = server.follower(session)
            task = reading(client)
            await client.reader.until(lambda: "One half, and" in client.reader.open.values())
            async with server.client() as http:
                answer = await http.post(f"sessions/{session}/requests?wait=10", json={"type": "cancel"})
                assert answer.json()["state"] == "settled"
            await client.reader.until(lambda: "run_ended" in client.reader.kinds)
            assert client.reader.facts[-1]["seq"] == client.reader.seq
            server.end()
            await task
    finally:
        running.terminate()
        finish(running)
