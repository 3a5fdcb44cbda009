"""The servers that transports are tried on: scripted byte by byte, and real ones.

The real ones all serve the same. `x-connection` in an answer names the client's port.

- `/echo`: the request's body, with its length
- `/pieces`: three pieces, chunked
- `/size/N`: N bytes, chunked
- `/redirect`: a redirect to `/echo`
- `/nothing`: 204
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ostler.models.transport import Reply, Transport
from tests.support import needed

HEADERS = {"content-type": "application/json", "accept-encoding": "identity", "authorization": "Bearer sk-1"}
OK = b"HTTP/1.1 200 OK\r\n"
SHORT = OK + b"content-length: 2\r\n\r\nok"
MEBIBYTE = 2**20
PIECES = (b"one ", b"two ", b"three")
REAL_SERVERS = ("uvicorn", "aiohttp", "nginx", "node")

Handler = Callable[["Visit"], Awaitable[None]]


class Visit:
    """One connection as a scripted server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number
        """Counts the connections of the server, from 1."""

    async def request(self) -> bytes:
        """The next request, head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head + await self.reader.readexactly(length)

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def is_left_after_anything(self) -> None:
        with suppress(ConnectionError):
            await self.reader.read()

    async def is_left(self) -> None:
        """Returns when the client has gone."""
        with suppress(ConnectionError):
            assert await self.reader.read(1) == b""


class ScriptedServer(NamedTuple):
    url: str
    visits: list[Visit]


@asynccontextmanager
async def scripted(
    handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedServer]:
    """Every connection is given to the handler and closed when it returns; what it raises is raised here."""
    visits: list[Visit] = []
    tasks: set[asyncio.Task[Any]] = set()
    failures: list[Exception] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        visits.append(Visit(reader, writer, len(visits) + 1))
        try:
            await handler(visits[-1])
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the server is being closed
        except Exception as error:
            failures.append(error)
        finally:
            writer.transport.abort() if tls else writer.close()

    server = await asyncio.start_server(accept, host, 0, ssl=tls, limit=2**20, backlog=1000)
    port = server.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    try:
        yield ScriptedServer(f"http{'s' if tls else ''}://{shown}:{port}", visits)
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
    if failures:
        raise failures[0]


async def pieces_of(reply: Reply) -> AsyncIterator[bytes]:
    while piece := await reply.read():
        yield piece


async def body_of(reply: Reply) -> bytes:
    try:
        async with asyncio.timeout(50):
            return b"".join([piece async for piece in pieces_of(reply)])
    finally:
        await reply.aclose()


async def answer(transport: Transport, url: str, body: bytes = b"{}") -> bytes:
    return await body_of(await transport.post(url, HEADERS, body))


class Authority(NamedTuple):
    """A certificate of its own for 127.0.0.1, ::1 and localhost."""

    file: Path
    server: ssl.SSLContext


def make_authority(directory: Path) -> Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    certificate = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - day, now + day
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, both = directory / "authority.pem", directory / "server.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both.write_bytes(file.read_bytes() + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return Authority(file, context)


@contextmanager
def real_server(name: str, directory: Path) -> Iterator[str]:
    """The address of a real server; skips when its program is not installed."""
    if name == "node":
        needed.program(name)
    serve = {"uvicorn": _uvicorn, "aiohttp": _aiohttp, "nginx": _nginx, "node": _node}[name]
    with serve(directory) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _loop_thread() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def _listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    listener.setblocking(False)
    return listener


@contextmanager
def _aiohttp(_: Path) -> Iterator[int]:
    from aiohttp import web

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        headers = {"x-connection": str(request.transport.get_extra_info("peername")[1])}
        match request.path.split("/")[1:]:
            case ["echo"]:
                return web.Response(body=await request.read(), headers=headers)
            case ["redirect"]:
                return web.Response(status=307, headers=headers | {"location": "/echo"})
            case ["nothing"]:
                return web.Response(status=204, headers=headers)
            case ["pieces"]:
                pieces = PIECES
            case ["size", size]:
                pieces = (b"x" * 65536,) * (int(size) // 65536)
            case _:
                return web.Response(status=404)
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        return response

    async def start(listener: socket.socket) -> web.AppRunner:
        app = web.Application(client_max_size=2**30)
        app.router.add_post("/{rest:.*}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        return runner

    with _loop_thread() as run, _listening() as listener:
        runner = run(start(listener))
        yield listener.getsockname()[1]
        run(runner.cleanup())


@contextmanager
def _uvicorn(_: Path) -> Iterator[int]:
    import uvicorn

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"x-connection", str(scope["client"][1]).encode())]
        status, length = 200, None
        pieces: tuple[bytes, ...] = ()
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message.get("more_body", False)
        match scope["path"].split("/")[1:]:
            case ["echo"]:
                pieces, length = (body,), len(body)
            case ["redirect"]:
                status, length = 307, 0
                headers.append((b"location", b"/echo"))
            case ["nothing"]:
                status = 204
            case ["pieces"]:
                pieces = PIECES
            case ["size", size]:
                pieces = (b"x" * 65536,) * (int(size) // 65536)
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None, http="httptools")
    server = uvicorn.Server(config)

    async def start(listener: socket.socket) -> asyncio.Task[None]:
        return asyncio.create_task(server.serve(sockets=[listener]))

    async def stop(task: asyncio.Task[None]) -> None:
        server.should_exit = True
        await task

    with _loop_thread() as run, _listening() as listener:
        port = listener.getsockname()[1]
        task = run(start(listener))
        yield port
        run(stop(task))


_NODE = """
const pieces = %s
const server = require('http').createServer((request, response) => {
  const chunks = []
  request.on('data', chunk => chunks.push(chunk))
  request.on('end', async () => {
    response.setHeader('x-connection', request.socket.remotePort)
    const [name, size] = request.url.split('/').slice(1)
    const write = async piece => response.write(piece) || new Promise(done => response.once('drain', done))
    if (name === 'echo') {
      const body = Buffer.concat(chunks)
      response.setHeader('content-length', body.length)
      response.end(body)
      return
    }
    if (name === 'redirect') response.writeHead(307, {location: '/echo'})
    if (name === 'nothing') response.writeHead(204)
    if (name === 'pieces') for (const piece of pieces) await write(piece)
    if (name === 'size') for (let sent = 0; sent < +size; sent += 65536) await write('x'.repeat(65536))
    response.end()
  })
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
process.stdin.on('end', () => process.exit()).resume()
"""


@contextmanager
def _node(_: Path) -> Iterator[int]:
    script = _NODE % [piece.decode() for piece in PIECES]
    command = ["node", "-e", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(60)


_NGINX = """
daemon off;
{user}
pid "{directory}/nginx.pid";
error_log "{directory}/error.log";
events {{ worker_connections 2000; }}
http {{
  access_log off;
  client_max_body_size 100m;
  client_body_temp_path "{directory}/body";
  proxy_temp_path "{directory}/proxy";
  fastcgi_temp_path "{directory}/fastcgi";
  scgi_temp_path "{directory}/scgi";
  uwsgi_temp_path "{directory}/uwsgi";
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{behind};
      proxy_http_version 1.1;
      proxy_redirect off;
      proxy_hide_header x-connection;
      add_header x-connection $remote_port always;
    }}
    location /small {{ client_max_body_size 1k; proxy_pass http://127.0.0.1:{behind}; }}
  }}
}}
"""


@contextmanager
def _nginx(directory: Path) -> Iterator[int]:
    """In front of aiohttp. It inherits its socket, so that it can be called before it is ready."""
    with _aiohttp(directory) as behind, _listening() as listener:
        port, fd = listener.getsockname()[1], listener.fileno()
        configuration = directory / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""  # which nobody else may say
        configuration.write_text(_NGINX.format(user=user, directory=directory, port=port, behind=behind))
        command = [
            needed.program("nginx"),
            "-e",
            str(directory / "start.log"),
            "-p",
            str(directory),
            "-c",
            str(configuration),
        ]
        environment = {"NGINX": f"{fd};", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        with subprocess.Popen(command, pass_fds=[fd], env=environment) as process:
            listener.close()  # so that a call fails if nginx does not serve
            try:
                yield port
            finally:
                process.terminate()
                process.wait(60)
