"""Behind a real nginx that does TLS, with the configuration of the documentation."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2

from tests.server.serve_process import serve_process
from tests.support.command import PATIENCE, Ostler, wait_until
from tests.support.needed import program
from tests.support.paths import DOCS

PAGE = DOCS / "server.md"
NAME = "ostler.example.com"


def certificate_in(folder: Path) -> None:
    made = [*("-keyout", folder / "key.pem"), *("-out", folder / "cert.pem"), *("-subj", f"/CN={NAME}")]
    names = ("-addext", f"subjectAltName=DNS:{NAME}")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
    subprocess.run(
        [program("openssl"), "req", "-x509", *kind, *made, *names], check=True, capture_output=True
    )


@contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[int]:
    """At a port of its own, before that server."""
    certificate_in(folder)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port: int = free.getsockname()[1]
    (documented,) = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for said, here in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "http://127.0.0.1:8420": upstream,
        "/etc/ssl/certs/ostler.pem": f'"{folder}/cert.pem"',
        "/etc/ssl/private/ostler.key": f'"{folder}/key.pem"',
    }.items():
        assert said in documented
        documented = documented.replace(said, here)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = "".join(f'{kind}_temp_path "{folder}/{kind}";\n' for kind in kinds)
    around = f'daemon off; pid "{folder}/pid"; error_log stderr; events {{}}'
    (folder / "nginx.conf").write_text(f"{around}\nhttp {{ access_log off;\n{own}{documented}}}\n")
    process = subprocess.Popen(
        [program("nginx"), "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"], stderr=subprocess.PIPE
    )
    try:
        wait_until(lambda: process.poll() is not None or is_open(port))
        assert process.poll() is None, process.stderr and process.stderr.read()
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_documented_proxy_brings_tls_streams_and_addresses(ostler: Ostler, tmp_path: Path) -> None:
    folder = tmp_path / "nginx"
    folder.mkdir()
    options = ("--model", "demo", "--allow-host", NAME, "--behind-proxy", "127.0.0.1")
    with serve_process(ostler, *options) as server, nginx(folder, server.base_url) as port:
        trusting = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        base = f"https://127.0.0.1:{port}/api/v1/"
        named = {"Host": f"{NAME}:{port}", "Origin": f"https://{NAME}:{port}"}
        sni = {"sni_hostname": NAME}
        with httpx2.Client(base_url=base, verify=trusting, headers=named, timeout=PATIENCE) as page:
            login = page.post("login", json={"token": server.token}, extensions=sni)
            assert login.status_code == 200, login.text
            cookie = login.headers["set-cookie"]
            assert cookie.startswith("__Host-")
            for word in ("secure", "httponly", "samesite=strict", "path=/"):
                assert word in cookie.lower()
            # The token of a page counts only together with its cookie, and the cookie never alone.
            bearer = {"Authorization": f"Bearer {login.json()['token']}"}
            both = {**bearer, "Cookie": cookie.partition(";")[0]}
            page.cookies.clear()
            assert page.get("me", headers=both, extensions=sni).status_code == 200
            assert page.get("me", headers=bearer, extensions=sni).status_code == 401
            assert page.get("me", headers={"Cookie": both["Cookie"]}, extensions=sni).status_code == 401
            made = page.post("sessions", json={}, headers=server.headers, extensions=sni)
            assert made.status_code == 201
            path, asked = f"sessions/{made.json()['id']}/events", {"Accept": "text/event-stream"}
            with page.stream("GET", path, headers={**server.headers, **asked}, extensions=sni) as stream:
                assert any('"caught_up"' in line for line in stream.iter_lines())
            for number in range(25):  # whoever makes up addresses is known by their own
                made_up = {"X-Forwarded-For": f"203.0.113.{number}"}
                last = page.post("login", json={"token": "no"}, headers=made_up, extensions=sni)
            assert last.status_code == 429
            other = page.get("me", headers={"Host": "other.example.com", "Origin": ""}, extensions=sni)
            assert other.status_code == 403
