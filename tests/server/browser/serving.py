"""`ostler serve` as a process of its own, before a fake vendor whose answers can come to a halt."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import httpx2

from ostler.server.tokens import TokenStore
from ostler.testkit.vendors import FakeVendor, Say
from tests.support.command import KEY, Ostler, finish

MODEL = "openai/gpt-4.1"
PATIENCE = 60


class Halting:
    """Pieces of a text or of arguments, with a halt in the middle of them."""

    def __init__(self, before: str, after: str, size: int = 12) -> None:
        self.before, self.after = _pieces(before, size), _pieces(after, size)
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        yield from self.before
        self.reached.set()
        self.go_on.wait(PATIENCE)
        yield from self.after

    def say(self) -> Say:
        return Say(self)  # type: ignore[arg-type]  # the wire takes them one by one


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


class Served:
    """A server that can be killed and started again at the same address."""

    def __init__(self, ostler: Ostler, vendor: FakeVendor, *options: str) -> None:
        self.ostler = ostler
        self.vendor = vendor
        self.options = options
        self.port = 0
        self.link = ""
        """Logs a browser in, once."""
        self.token = ""
        self.process: subprocess.Popen[bytes] | None = None
        ostler.configure(
            f"""
            model = "{MODEL}"
            [providers.openai]
            base_url = "{vendor.chat_url}"
            """
        )

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = self.ostler.start("serve", "--port", str(self.port), *self.options, OPENAI_API_KEY=KEY)
        assert self.process.stderr is not None
        said = ""
        while "in a browser" not in said:
            line = self.process.stderr.readline().decode()
            assert line, f"the server ended: {said}"
            said += line
        if not self.token:  # the first one is shown on a terminal only
            self.token = TokenStore(self.ostler.home / "tokens.json").new("tests", "admin")
        self.port = int(re.search(r"open \S+:(\d+)/ in a browser", said)[1])  # type: ignore[index]
        code = TokenStore(self.ostler.home / "tokens.json").link_code()
        self.link = f"{self.address}/#token={code}"

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            finish(self.process)

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """The API, as a program uses it."""
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.address}/api/v1/{path}"
        answer = httpx2.request(method, url, headers=headers, timeout=PATIENCE, **options)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    @property
    def told(self) -> list[dict[str, Any]]:
        """What the model was asked, each time."""
        return [one.json for one in self.vendor.requests if "messages" in one.json]

    def facts(self, session: str, *types: str) -> list[dict[str, Any]]:
        """Those in the log, of these types."""
        found = self.ask("GET", f"sessions/{session}/events", params={"limit": 1000})["facts"]
        return [fact for fact in found if not types or fact["type"] in types]
