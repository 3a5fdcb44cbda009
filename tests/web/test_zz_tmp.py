import asyncio
from tests.web.serve_process import serve_process
from tests.web.test_serve_process import new_session
async def test_burst(ostler):
    with serve_process(ostler, "--model", "demo", descriptors=160) as server:
        session = await new_session(server)
        port = int(server.base_url.rpartition(":")[2])
        async def one():
            r, w = await asyncio.open_connection("127.0.0.1", port)
            w.write(f"GET /api/v1/sessions/{session}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\nAccept: text/event-stream\r\n\r\n".encode())
            try:
                line = await asyncio.wait_for(r.readline(), 15)
            except Exception as e:
                line = repr(e).encode()
            return line, w
        got = await asyncio.gather(*(one() for _ in range(400)))
        from collections import Counter
        print(Counter(line for line, _ in got))
        for _, w in got: w.close()
        async with server.client() as http:
            print((await http.get("health")).status_code)
        print(server.end())
