"""`ostler serve` as people start it: what it says, what it refuses, what it never says."""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from ostler.models.credentials import store_key
from ostler.schema.errors import UsageError
from ostler.server.app import OPERATIONS
from ostler.server.command import serve_command
from ostler.server.main import listen
from ostler.server.tokens import TokenStore
from ostler.testkit.vendors import FakeVendor, Refusal
from tests.support.command import KEY, PATIENCE, Ostler, Ran, finish, use
from tests.support.fixtures import Configure

OTHER_KEYS = ("sk-in-the-file-0123456789", "sk-in-the-settings-0123456789", "sk-in-a-variable-0123456789")


class Running:
    """A server in a process of its own."""

    def __init__(self, ostler: Ostler, process: subprocess.Popen[bytes], said: str) -> None:
        link = re.search(r"open (http://\S+/) in a browser", said)
        assert link, said
        self.process, self.said = process, said
        self.address = link[1]
        self.http = httpx2.Client(timeout=PATIENCE)
        self.token = TokenStore(ostler.home / "tokens.json").new(f"test {process.pid}", "all")

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return self.http.request(method, f"{self.address}api/v1/{path}", headers=headers, **options)

    def end(self) -> Ran:
        self.process.terminate()
        return finish(self.process)


@contextmanager
def running(ostler: Ostler, *options: str, **variables: str) -> Iterator[Running]:
    process = ostler.start("serve", "--port", "0", *options, **variables)
    try:
        assert process.stderr is not None
        said = ""
        while "in a browser" not in said:
            line = process.stderr.readline().decode()
            assert line, f"the server ended: {said}"
            said += line
        server = Running(ostler, process, said)
        with server.http:
            yield server
    finally:
        if process.returncode is None:
            process.terminate()
            finish(process)


def refused(monkeypatch: pytest.MonkeyPatch, ostler: Ostler, *arguments: str) -> str:
    """What is said instead of serving."""
    monkeypatch.setenv("OSTLER_HOME", str(ostler.home))
    monkeypatch.chdir(ostler.work)
    with pytest.raises(UsageError) as caught:
        serve_command([*arguments])
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_port_that_is_taken_is_one_line(ostler: Ostler, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        said = refused(monkeypatch, ostler, "--port", str(port))
    assert f"127.0.0.1:{port}" in said
    assert "the port is in use" in said
    assert "--port 0" in said
    assert not (ostler.home / "tokens.json").exists()  # a token that nobody was shown helps nobody


@pytest.mark.parametrize("host", ["nowhere.invalid", "a b", "203.0.113.77", "x" * 300])
def test_a_host_that_is_not_here_is_one_line(
    ostler: Ostler, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    assert "cannot listen at" in refused(monkeypatch, ostler, "--host", host, "--port", "0")


def test_other_machines_may_ask_only_where_there_is_a_token(
    ostler: Ostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in ("0.0.0.0", ""):
        said = refused(monkeypatch, ostler, "--host", host, "--port", "0")
        assert "ostler token new" in said
    assert not (ostler.home / "tokens.json").exists()


def test_with_a_token_it_serves_other_machines_and_says_what_that_means(ostler: Ostler) -> None:
    ostler("token", "new", "laptop")
    with running(ostler, "--host", "0.0.0.0", "--allow-host", "ostler.example.com") as server:
        assert "listening at http://0.0.0.0:" in server.said
        assert "plain HTTP" in server.said
        assert server.address.startswith("http://127.0.0.1:")
        assert server.ask("GET", "me").status_code == 200
        assert server.ask("GET", "me", headers={"Host": "ostler.example.com"}).status_code == 200
        assert server.ask("GET", "me", headers={"Host": "other.example.com"}).status_code == 403
        assert server.ask("GET", "me", headers={"Authorization": ""}).status_code == 401


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "65536"),
        ("--port", "-1"),
        ("--port", "http"),
        ("--behind-proxy", "*"),
        ("--behind-proxy", "proxy.example.com"),
    ],
)
def test_wrong_options_are_one_line(
    ostler: Ostler, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit) as ended:
        serve_command([*arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_home_that_cannot_be_used_is_one_line(ostler: Ostler) -> None:
    (ostler.home.parent / "file").write_text("")
    ran = ostler("serve", "--port", "0", OSTLER_HOME=str(ostler.home.parent / "file" / "home"))
    assert ran.code != 0
    assert ran.err.count("\n") == 1
    assert "cannot be used" in ran.err


def test_without_the_extra_it_says_what_to_install(ostler: Ostler, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "starlette.py").write_text("raise ImportError\n")
    ran = ostler("serve", "--port", "0", PYTHONPATH=str(tmp_path / "hidden"))
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "[server]" in ran.err
    made = ostler("token", "new", "laptop", PYTHONPATH=str(tmp_path / "hidden"))
    assert made.code == 0


def test_without_any_model_it_opens_and_says_what_is_missing(ostler: Ostler, configure: Configure) -> None:
    configure()
    with running(ostler) as server:
        me = server.ask("GET", "me").json()
        assert (me["scope"], me["model"]) == ("all", "")
        assert "no model can answer" in me["notice"]
        looked_for = server.ask("GET", "models").json()["looked_for"]
        assert any("ANTHROPIC_API_KEY" in one["to_do"] for one in looked_for)
        assert server.ask("GET", "sessions").json()["sessions"] == []
        assert server.http.get(server.address).status_code == 200
        prompt = {"prompt": [{"type": "text", "text": "hi"}]}
        refused = server.ask("POST", "sessions", json=prompt).json()
        assert refused["kind"] == "no_model"
        ended = server.end()
    assert ended.code == 0
    assert "no model can answer" in server.said + ended.err
    assert server.token not in server.said + ended.err


def test_an_unusable_model_is_reported_at_the_start(ostler: Ostler) -> None:
    with running(ostler, "--model", "no-such-model") as server:
        ended = server.end()
    assert "there is no model 'no-such-model'" in server.said + ended.err


def test_two_servers_of_one_home_serve_the_same_sessions(ostler: Ostler) -> None:
    with running(ostler, "--model", "demo") as first, running(ostler, "--model", "demo") as second:
        made = first.ask("POST", "sessions", json={}).json()
        assert second.ask("GET", f"sessions/{made['id']}").status_code == 200
        assert second.ask("GET", "me", headers={"Authorization": f"Bearer {first.token}"}).status_code == 200


def test_the_first_token_is_printed_only_to_a_terminal(ostler: Ostler) -> None:
    with running(ostler, "--model", "demo") as server:
        assert "created a first token (not shown" in server.said
        assert "ostler_" not in server.said
        assert "#token=" not in server.said  # a log may be read by others
        assert f"`ostler token link {server.address}` prints a login link" in server.said
        linked = ostler("token", "link", server.address)
        code = linked.out.strip().removeprefix(f"{server.address}#token=")
        login = server.ask("POST", "login", json={"token": code}).json()
        assert login["scope"] == "admin"
        page = {"Authorization": f"Bearer {login['token']}"}
        assert server.ask("GET", "me", headers=page).json()["scope"] == "admin"
        assert server.ask("POST", "login", json={"token": code}).status_code == 401
    (ostler.home / "tokens.json").unlink()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ostler", "serve", "--port", "0", "--model", "demo"],
        cwd=ostler.work,
        env=ostler.environment({}),
        stdin=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        shown = b""
        while b"in a browser" not in shown:
            shown += os.read(ours, 65536)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(ours)
    assert re.search(r"open http://\S+/#token=\S+ in a browser", shown.decode())
    token = re.search(r"created a first token \((ostler_\S+)\)", shown.decode())
    assert token
    assert TokenStore(ostler.home / "tokens.json").of_token(token[1])


def test_what_a_proxy_says_counts_only_where_it_was_named(ostler: Ostler) -> None:
    said = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.5"}
    for options, is_secure in (((), False), (("--behind-proxy", "127.0.0.1"), True)):
        with running(ostler, "--model", "demo", *options) as server:
            login = server.ask("POST", "login", json={"token": server.token}, headers=said)
            assert ("__Host-" in login.headers.get("set-cookie", "")) is is_secure
            for _ in range(25):  # from an address that somebody made up
                server.ask("POST", "login", json={"token": "wrong"}, headers=said)
            here = server.ask("POST", "login", json={"token": "wrong"})
            assert here.status_code == (401 if is_secure else 429)


def test_no_key_and_no_token_is_in_any_answer_or_line(ostler: Ostler) -> None:
    stored, configured, variable = OTHER_KEYS
    ostler.configure(f'[providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "{configured}"\n')
    store_key(ostler.home / "keys.json", "anthropic", stored)
    with (
        FakeVendor([Refusal(401, f"Incorrect API key provided: {KEY}")] * 5) as vendor,
        running(ostler, *use(vendor), GROQ_API_KEY=variable) as server,
    ):
        made = server.ask("POST", "sessions", json={"prompt": [{"type": "text", "text": "hi"}]})
        session = made.json()["id"]
        for wait in range(20):
            page = server.ask("GET", f"sessions/{session}/events?after={wait}&wait=10").json()
            if any(fact["type"] == "run_ended" for fact in page["facts"]):
                break
        asked = [made]
        for one in OPERATIONS:
            path = one.path.lstrip("/").replace("{session}", session)
            if one.method == "GET" and "{" not in path:
                asked.append(server.ask("GET", path))
        for form in ("jsonl", "md", "html"):
            asked.append(server.ask("GET", f"sessions/{session}/export?format={form}"))
        wrong = {"type": "set_model", "model": f"mine/{KEY}"}
        asked.append(server.ask("POST", f"sessions/{session}/requests?wait=5", json=wrong))
        asked.append(server.ask("POST", "login", json={"token": server.token}))
        asked.append(server.ask("POST", "login", json={"token": "wrong"}))
        asked.append(server.ask("GET", "me", headers={"Authorization": f"Bearer {server.token}x"}))
        ended = server.end()
    assert len(vendor.requests) >= 1
    assert any("Incorrect API key provided" in one.text for one in asked)
    secrets = (KEY, *OTHER_KEYS, server.token, server.token.removeprefix("ostler_")[:20])
    for answer in asked:
        seen = answer.text.replace(f"mine/{KEY}", "") + str(answer.headers)
        for secret in secrets:
            assert secret not in seen, answer.request.url
    for secret in secrets:
        assert secret not in server.said + ended.err + ended.out


def test_what_is_small_is_sent_at_once() -> None:
    with closing(listen("127.0.0.1", 0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # asyncio turns Nagle's algorithm off where it says so


def test_an_openapi_document_is_printed_without_a_home(ostler: Ostler) -> None:
    ran = ostler("serve", "--openapi")
    assert ran.code == 0
    assert msgspec.json.decode(ran.out)["openapi"] == "3.1.0"
    assert not ostler.home.exists()
