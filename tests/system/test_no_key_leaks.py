"""A key, from wherever it came, is never seen again: not on the outputs, not in any file but its own."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from ostler.core.secrets import MASK
from ostler.testkit.vendors import Answer, Refusal, Trouble, call, say, turn
from tests.support.command import PATIENCE, Ostler, Ran
from tests.support.fixtures import Serve
from tests.support.paths import ROOT

CANARY = "sk-canary-XYZZY0123456789abcdefghijklmnop"
MARKS = (CANARY, CANARY[3:], CANARY[::-1], b64encode(CANARY.encode()).decode().rstrip("="))

SOURCES = [
    "option",
    "OSTLER_API_KEY",
    "environment",
    "configuration",
    "provider",
    "command",
    "file",
    "keyring",
]


class Prepared:
    """A command that finds the canary in one place, and the files which may hold it."""

    def __init__(self, ostler: Ostler, source: str) -> None:
        self.ostler = ostler
        self.options: tuple[str, ...] = ()
        self.variables: dict[str, str] = {}
        self.own_files: set[Path] = set()
        ostler.home.mkdir()
        configuration = ostler.home / "config.toml"
        match source:
            case "option":
                self.options = ("--api-key", CANARY)
            case "OSTLER_API_KEY":
                self.variables = {"OSTLER_API_KEY": CANARY}
            case "environment":
                self.variables = {"OPENAI_API_KEY": CANARY}
            case "configuration":
                configuration.write_text(f"model = 'openai/fake'\napi_key = '{CANARY}'")
                self.own_files = {configuration}
            case "provider":
                configuration.write_text(f"[providers.openai]\napi_key = '{CANARY}'")
                self.own_files = {configuration}
            case "command":
                (ostler.home / "secret").write_text(CANARY)
                command = shlex.join(["cat", str(ostler.home / "secret")])
                configuration.write_text(f"[providers.openai]\nkey_command = {json.dumps(command)}")
                self.own_files = {ostler.home / "secret"}
            case "file":
                self.own_files = {ostler.home / "keys.json"}
                assert ostler("key", "set", "openai", piped=CANARY.encode()).code == 0
            case "keyring":
                self.own_files = {ostler.home / "keyring.json"}
                self.variables = {
                    "PYTHON_KEYRING_BACKEND": "tests.support.keyring_in_a_file.Keyring",
                    "PYTHONPATH": str(ROOT),
                    "KEYRING_FILE": str(ostler.home / "keyring.json"),
                }
                command = ("key", "set", "openai", "--keyring")
                assert ostler(*command, piped=CANARY.encode(), **self.variables).code == 0

    def __call__(self, *arguments: str, **variables: str) -> Ran:
        ran = self.ostler(*arguments, **self.variables, **variables)
        assert_unseen(self, ran)
        return ran

    def prompt(self, base_url: str, *arguments: str, **variables: str) -> Ran:
        model = ("--model", "openai/fake", "--base-url", base_url)
        return self("-p", *model, *self.options, *arguments, "hello", **variables)

    def in_one_process(self, program: str, *arguments: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *arguments],
            env=self.ostler.environment(self.variables),
            cwd=self.ostler.work,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        ran = Ran(done.returncode, done.stdout, done.stderr)
        assert_unseen(self, ran)
        return ran


def assert_unseen(prepared: Prepared, ran: Ran) -> None:
    for mark in MARKS:
        assert mark not in ran.out and mark not in ran.err
        for file in prepared.ostler.home.rglob("*"):
            if file.is_file() and file not in prepared.own_files:
                assert mark.encode() not in file.read_bytes(), file
        for file in prepared.ostler.work.rglob("*"):
            assert not file.is_file() or mark.encode() not in file.read_bytes(), file


@pytest.fixture(params=SOURCES)
def prepared(ostler: Ostler, request: pytest.FixtureRequest) -> Prepared:
    return Prepared(ostler, request.param)


def test_a_successful_run_and_its_reports_contain_no_key(prepared: Prepared, serve: Serve) -> None:
    # Neither its own environment nor the one of Ostler's process has a key for the command to disguise.
    printing = "(env; cat /proc/$PPID/environ /proc/$PPID/cmdline) | base64 -w 0; env | sort; ls -a"
    printing += "; (env; cat /proc/$PPID/environ /proc/$PPID/cmdline) | rev"
    vendor = serve(turn(call("bash", {"command": printing})), turn("Done."), api_key=CANARY)
    ran = prepared.prompt(vendor.chat_url, "--json", "--yes")
    assert ran.code == 0 and len(vendor.requests) == 2
    (result,) = ran.all("tool_result")
    assert "OSTLER_HOME=" in result["content"][0]["text"]
    session = ran.facts[0]["session"]
    commands = [
        ["sessions", "show", session],
        ["sessions", "show", "--json", session],
        ["sessions", "export", session],
        ["sessions", "search", "Done"],
        ["cost", "--json"],
        ["doctor"],
        ["doctor", "--json"],
        ["key", "list"],
        ["key", "list", "--json"],
    ]
    ran = prepared.in_one_process(ONE_BY_ONE, json.dumps(commands))
    assert (ran.code, ran.out.count('"run_started"'), ran.out.count('"can_answer":')) == (0, 2, 1)


ONE_BY_ONE = """
import json, sys
from ostler import main

for command in json.loads(sys.argv[1]):
    assert main.run(command) in (0, 3), command
"""


FAILING: dict[str, Answer] = {
    "401": Refusal(401, f"Incorrect API key provided: {CANARY}. You can find it at …"),
    "403 as text": Refusal(403, body=f"forbidden for Bearer {CANARY}"),
    "500": Refusal(500, f"internal error while checking {CANARY}", code=CANARY),
    "a redirect": Refusal(307, body="", headers={"location": f"http://127.0.0.1:1/?key={CANARY}"}),
    "a stream that is no JSON": turn(say("half ", "an "), trouble=Trouble("malformed", after=2)),
    "an error in the stream": turn(
        say("half ", "an "), trouble=Trouble("error", 2, CANARY, f"quota of {CANARY}")
    ),
    "a stream that is cut": turn(say("half ", "an "), trouble=Trouble("cut", after=2)),
}


def test_a_failed_run_contains_no_key(ostler: Ostler, serve: Serve) -> None:
    prepared = Prepared(ostler, "file")
    for name, answer in FAILING.items():
        vendor = serve(by=lambda request, answer=answer: answer)
        ran = prepared.prompt(vendor.chat_url, "--json", OSTLER_MAX_RETRIES="0")
        assert ran.code == 1, name
        assert vendor.requests[0].headers["authorization"] == f"Bearer {CANARY}", name
        assert vendor.connections == 1, name


def test_a_refusal_contains_no_key(prepared: Prepared, serve: Serve) -> None:
    vendor = serve(Refusal(401, f"Incorrect API key provided: {CANARY}"))
    ran = prepared.prompt(vendor.chat_url, "--json")
    assert ran.code == 1 and MASK in ran.lines[-1]["reason"]


@pytest.mark.parametrize("wire", ["anthropic", "responses", "gemini"])
def test_no_wire_leaks_the_key(ostler: Ostler, serve: Serve, wire: str) -> None:
    prepared = Prepared(ostler, "option")
    vendor = serve(by=lambda request: Refusal(401, f"no: {CANARY}"))
    url = {"anthropic": vendor.anthropic_url, "responses": vendor.chat_url, "gemini": vendor.gemini_url}[wire]
    ran = prepared.prompt(url, "--json", OSTLER_WIRE=wire)
    assert ran.code == 1 and len(vendor.requests) == 1
    assert CANARY in " ".join(vendor.requests[0].headers.values())


def test_an_unreachable_server_leaks_no_key(ostler: Ostler) -> None:
    prepared = Prepared(ostler, "environment")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        ran = prepared.prompt(url, OSTLER_MAX_RETRIES="0")
    assert ran.code == 1 and "connection refused" in ran.err


CRASHING = """
import sys
import ostler.cli.prompt as prompt
from ostler import main

def crash(settings, harness, *rest):
    raise RuntimeError(f"this should not happen: {vars(harness.model.load()._endpoint)}")

prompt._run = lambda options, settings, harness, text: crash(settings, harness)
sys.exit(main.run(sys.argv[1:]))
"""


def test_a_crash_shows_where_it_happened_and_no_key(prepared: Prepared) -> None:
    """The exception's own text holds the headers of the request, key included."""
    model = ("--model", "openai/fake", "--base-url", "http://127.0.0.1:1/v1")
    ran = prepared.in_one_process(CRASHING, "-p", *model, *prepared.options, "hi")
    assert ran.code == 1
    assert "RuntimeError: this should not happen" in ran.err and f"Bearer {MASK}" in ran.err
    assert "this is a bug in ostler" in ran.err


def test_a_key_behind_a_mistyped_option_is_not_repeated(ostler: Ostler) -> None:
    for arguments in ((f"--apikey={CANARY}",), (f"--api_key={CANARY}",), ("--model", CANARY, "--frob=1")):
        ran = ostler("-p", *arguments, "hello")
        assert ran.code == 2 and CANARY not in ran.err


def test_the_key_of_a_project_that_is_trusted_is_not_shown(ostler: Ostler) -> None:
    prepared = Prepared(ostler, "option")
    project = ostler.work / "ostler.toml"
    project.write_text(
        f"api_key = '{CANARY}'\n[providers.mine]\nbase_url = 'http://u:{CANARY}@127.0.0.1:1/v1'\n"
        f"api_key = '{CANARY}'\nheaders = {{ authorization = 'Bearer {CANARY}' }}\n"
        f"[providers.other]\nbase_url = 'http://u:{CANARY}@host.example/v1'\n"
    )
    ran = ostler("trust")
    assert ran.code == 0 and CANARY not in ran.out + ran.err
    ran = ostler("doctor", "--json")
    assert CANARY not in ran.out + ran.err
    assert json.loads(ran.out)["places"]
    project.unlink()
    assert_unseen(prepared, ran)


PRINTING = """
import os, sys
from pathlib import Path

key = "".join(map(chr, CODES))
for at in range(0, len(key), 5):
    os.write(1, key[at : at + 5].encode())
    os.write(2, b"")
os.write(1, b" and s")
Path("printed.txt").write_text(f"TOKEN={key}\\n")
""".replace("CODES", repr([*CANARY.encode()]))


def test_a_key_in_the_output_of_a_command_or_in_a_file_is_masked(ostler: Ostler, serve: Serve) -> None:
    prepared = Prepared(ostler, "environment")
    (ostler.work / "program.py").write_text(PRINTING)
    prepared.own_files = {ostler.work / "printed.txt"}
    vendor = serve(
        turn(call("bash", {"command": f"{shlex.quote(sys.executable)} program.py"})),
        turn(call("read", {"path": "printed.txt"})),
        turn(call("read", {"path": "printed.txt", "column": 12})),
        turn(call("grep", {"pattern": "TOKEN", "path": "printed.txt"})),
        turn(call("write", {"path": "printed.txt", "content": f"TOKEN={MASK}\n"})),
        turn(call("edit", {"path": "printed.txt", "edits": [{"old_text": MASK, "new_text": "x"}]})),
        turn("Done."),
        api_key=CANARY,
    )
    ran = prepared.ostler(
        *("-p", "--model", "openai/fake", "--base-url", vendor.chat_url, "--json", "--yes", "hello"),
        **prepared.variables,
    )
    texts = [result["content"][0]["text"] for result in ran.all("tool_result")]
    assert texts[0] == f"{MASK} and s"
    assert texts[1] == f"1\tTOKEN={MASK}"
    assert "XYZZY" not in texts[2] and CANARY[12:] not in texts[2]
    assert texts[3] == f"printed.txt:1:TOKEN={MASK}"
    assert all("stands for a key that you cannot see" in text for text in texts[4:])
    assert (ostler.work / "printed.txt").read_text() == f"TOKEN={CANARY}\n"  # the file has not changed
    assert CANARY not in ran.out and CANARY.encode() not in ostler.store.read_bytes()


def test_the_setting_pass_env_passes_a_key_to_commands(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(
        turn(call("bash", {"command": 'echo "${#OPENAI_API_KEY} ${#GROQ_API_KEY}"'})), turn("Done.")
    )
    ostler.configure("pass_env = ['OPENAI_API_KEY']")
    model = ("--model", "openai/fake", "--base-url", vendor.chat_url)
    variables = {"OPENAI_API_KEY": CANARY, "GROQ_API_KEY": CANARY}
    ran = ostler("-p", *model, "--json", "--yes", "hello", **variables)
    assert ran.all("tool_result")[0]["content"][0]["text"] == f"{len(CANARY)} 0\n"


def test_a_project_cannot_pass_keys_to_commands_without_trust(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("bash", {"command": 'echo "${#OPENAI_API_KEY}"'})), turn("Done."))
    (ostler.work / "ostler.toml").write_text("pass_env = ['OPENAI_API_KEY']")
    model = ("--model", "openai/fake", "--base-url", vendor.chat_url)
    ran = ostler("-p", *model, "--json", "--yes", "hello", OPENAI_API_KEY=CANARY)
    assert ran.all("tool_result")[0]["content"][0]["text"] == "0\n"
    assert "pass_env" in ran.err


def test_a_key_in_an_old_log_is_masked_in_exports(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("Done."))
    # It was no key of this user when it was written.
    ran = ostler("-p", "--model", "openai/fake", "--base-url", vendor.chat_url, "--json", f"I have {CANARY}")
    session = ran.facts[0]["session"]
    assert CANARY in ran.out
    for extension in (".jsonl", ".md", ".html"):
        target = ostler.work / f"export{extension}"
        assert ostler("sessions", "export", session, str(target), OPENAI_API_KEY=CANARY).code == 0
        text = target.read_text()
        assert CANARY not in text and MASK in text
