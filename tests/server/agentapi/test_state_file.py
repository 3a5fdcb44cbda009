"""The state file: a conversation that goes on from one start to the next, in the format that agentapi has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from signal import SIGHUP, SIGTERM, SIGUSR1
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.drivers.driver import AgentMessage, SavedState
from ostler.drivers.tracker import Tracker
from ostler.server.agentapi.state_file import (
    StateFile,
    UnreadableState,
    decode_state,
    encode_state,
    read_state,
)
from tests.agents.serving.served_agent import BASIC, GREETING, scripted, serving_agent
from tests.support.command import Ostler, wait_until

HELLO = ("agent", "Hello! I am ready.")
ASKED = ("user", "This is a test message.")
ANSWERED = ("agent", "Echo: This is a test message.")
BROKEN = "failed to unmarshal state (corrupted or invalid JSON)"
PROMPT = "This is a test message."
AGAIN = [
    {"says": "Hello again, I am another one."},
    {"expects": "New prompt.", "says": "Echo: New prompt."},
]

texts = st.text(st.characters(codec="utf-8"))
messages = st.lists(
    st.builds(
        AgentMessage,
        id=st.just(0),
        role=st.sampled_from(["agent", "user"]),
        text=texts,
        time=st.floats(0, 4e9),
    )
)


@given(st.builds(SavedState, messages=messages, initial_prompt=texts, initial_prompt_sent=st.booleans()))
def test_what_was_written_is_read_back_to_the_microsecond(saved: SavedState) -> None:
    line = encode_state(saved)
    assert line.count(b"\n") == 1
    read = decode_state(line)
    assert (read.initial_prompt, read.initial_prompt_sent) == (
        saved.initial_prompt,
        saved.initial_prompt_sent,
    )
    assert [(one.role, one.text) for one in read.messages] == [(one.role, one.text) for one in saved.messages]
    assert all(
        abs(one.time - was.time) < 2e-6 for one, was in zip(read.messages, saved.messages, strict=True)
    )
    assert decode_state(encode_state(read)) == read


def test_it_is_one_line_of_json_as_agentapi_writes_it() -> None:
    time = datetime.fromisoformat("2026-04-10T12:34:40.120+00:00").timestamp()
    saved = SavedState((AgentMessage(0, "agent", "a <b> & \u2028", time),), "do it", True)
    line = encode_state(saved)
    written = json.loads(line)
    assert datetime.fromisoformat(written["messages"][0].pop("time")).timestamp() == time
    assert written == {
        "version": 1,
        "messages": [{"id": 0, "message": "a <b> & \u2028", "role": "agent"}],
        "initial_prompt": "do it",
        "initial_prompt_sent": True,
    }
    assert b"a \\u003cb\\u003e \\u0026 \\u2028" in line
    assert b":40.12" in line
    assert b":40.120" not in line
    assert list(written) == ["version", "messages", "initial_prompt", "initial_prompt_sent"]


def test_what_agentapi_has_written_is_read() -> None:
    line = (
        b'{"version":1,"messages":[{"id":0,"message":"Hi","role":"agent",'
        b'"time":"2026-04-10T12:34:40.123456789+01:00"},{"id":1,"message":"\\u003ca\\u003e","role":"user",'
        b'"time":"0001-01-01T00:00:00Z"}],"initial_prompt":"","initial_prompt_sent":false}\n'
    )
    read = decode_state(line)
    assert [one.text for one in read.messages] == ["Hi", "<a>"]
    assert read.messages[0].time == pytest.approx(1775820880.123456)
    encode_state(read)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", BROKEN),
        (b"{", BROKEN),
        (b'{"version":1,"messages":[{"id":0,"message":"","role":"other","time":""}]}', BROKEN),
        (b'{"version":1,"messages":[{"id":0,"message":"","role":"user","time":"now"}]}', BROKEN),
        (b"{}", "unsupported state file version 0 (expected 1)"),
        (b'{"version":2,"messages":{}}', "unsupported state file version 2 (expected 1)"),
    ],
)
def test_an_unusable_state_file_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableState) as refused:
        decode_state(data)
    assert refused.value.message.startswith(reason)


@given(
    st.binary()
    | st.recursive(st.none() | st.integers() | texts, st.lists).map(lambda v: json.dumps(v).encode())
)
def test_whatever_is_in_the_file_it_is_read_or_refused(data: bytes) -> None:
    try:
        decode_state(data)
    except UnreadableState as problem:
        assert "state" in problem.message


def test_a_file_that_is_not_there_is_no_problem(tmp_path: Path) -> None:
    assert read_state(tmp_path / "none") is None
    with pytest.raises(UnreadableState, match="failed to open state file"):
        read_state(tmp_path)


class Talk:
    """An agent, as far as a state file looks at it."""

    def __init__(self) -> None:
        self.saved = SavedState((AgentMessage(0, "agent", "one", 1.0),))

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        self.change = on_change
        return lambda: None

    def to_save(self) -> SavedState:
        return self.saved

    def say(self, text: str) -> None:
        self.saved = SavedState((*self.saved.messages, AgentMessage(1, "agent", text, 2.0)))
        self.change()


def kept_file(path: Path, talk: Any, said: list[str], **options: Any) -> StateFile:
    settings = {"saved": None, "is_unreadable": False, **options}
    return StateFile(path, talk, warn=said.append, **settings)


async def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    path, talk, said = tmp_path / "deep" / "state.json", Talk(), list[str]()
    file = kept_file(path, talk, said)
    file.save()
    before = path.stat()
    assert (before.st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    talk.change()
    file.save()
    file.close()
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    loaded = kept_file(path, talk, said, saved=read_state(path))
    loaded.close()
    assert path.stat().st_ino == before.st_ino
    assert said == []


async def test_a_change_is_saved_soon_by_itself(tmp_path: Path) -> None:
    path, talk = tmp_path / "state.json", Talk()
    kept_file(path, talk, [])
    talk.say("two")
    await asyncio.to_thread(wait_until, path.exists)
    assert read_state(path) == talk.saved


async def test_a_file_that_nobody_could_read_is_set_aside(tmp_path: Path) -> None:
    path, aside, talk = tmp_path / "state.json", tmp_path / "state.json.unreadable", Talk()
    path.write_text("{")
    file = kept_file(path, talk, [], is_unreadable=True)
    file.save()
    talk.say("two")
    file.close()
    assert aside.read_text() == "{"
    assert read_state(path) == talk.saved


async def test_a_write_error_is_reported_once(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "folder").write_text("a file")
    talk = Talk()
    file = kept_file(tmp_path / "folder" / "state.json", talk, said)
    file.save()
    talk.say("two")
    file.save()
    assert len(said) == 1
    assert "cannot be written" in said[0]


def test_until_the_agent_is_ready_what_was_saved_stays_what_is_saved() -> None:
    saved = SavedState((AgentMessage(0, "agent", "before", 1.0),), "prompt", True)
    tracker = Tracker("custom", 0.0, saved=saved)
    tracker.look(1.0, "loading")
    assert tracker.to_save() == saved
    tracker.look(2.0, "hello\n>")
    assert [one.text for one in tracker.to_save().messages] == ["before"]


# --- in a process of its own --------------------------------------------------------------------------


def test_a_conversation_continues_after_a_restart(ostler: Ostler) -> None:
    path = ostler.work / "deep" / "state.json"
    with serving_agent(ostler, "-s", str(path), agent=scripted(ostler, BASIC)) as served:
        served.until_stable()
        served.say(PROMPT)
        served.until_stable()
        assert served.end().code == 0
    assert json.loads(path.read_text())["version"] == 1
    before = path.stat().st_mtime_ns
    with serving_agent(ostler, "-s", str(path), agent=scripted(ostler, AGAIN)) as served:
        served.until_stable()
        assert served.messages == [HELLO, ASKED, ANSWERED]
        assert served.end().code == 0
    assert path.stat().st_mtime_ns == before


def test_an_initial_prompt_is_not_repeated_but_a_new_one_is_sent(ostler: Ostler) -> None:
    file = ("--state-file", str(ostler.work / "state.json"))
    with serving_agent(ostler, *file, "-I", PROMPT, agent=scripted(ostler, BASIC)) as served:
        served.until_stable()
        assert served.messages == [HELLO, ASKED, ANSWERED]
        assert served.end().code == 0
    for prompt in ((), ("-I", PROMPT)):
        with serving_agent(ostler, *file, *prompt, agent=scripted(ostler, BASIC)) as served:
            served.until_stable()
            assert served.messages == [HELLO, ASKED, ANSWERED]
            assert served.end().code == 0
    with serving_agent(ostler, *file, "-I", "New prompt.", agent=scripted(ostler, AGAIN)) as served:
        served.until_stable()
        assert served.messages[:4] == [HELLO, ASKED, ANSWERED, ("user", "New prompt.")]
        assert "Echo: New prompt." in served.messages[4][1]
        assert len(served.messages) == 5


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param("", BROKEN, marks=pytest.mark.long),
        pytest.param('{"version": 1, "messages": [', BROKEN, marks=pytest.mark.long),
        ('{"version": 999}', "unsupported state file version 999 (expected 1)"),
    ],
)
def test_a_broken_file_is_a_warning_and_the_agent_starts_over(
    ostler: Ostler, content: str, reason: str
) -> None:
    path = ostler.work / "state.json"
    path.write_text(content)
    with serving_agent(ostler, "-s", str(path), agent=scripted(ostler, [GREETING])) as served:
        served.until_stable()
        assert served.messages == [HELLO]
        [error] = served.errors()
        assert error["level"] == "warning"
        assert error["message"].startswith(f"Failed to restore previous session: {reason}")
        assert served.end().code == 0
    assert Path(f"{path}.unreadable").read_text() == content
    assert [one.text.strip() for one in decode_state(path.read_bytes()).messages] == [HELLO[1]]


def test_after_a_restored_question_the_answer_comes_from_the_screen(ostler: Ostler) -> None:
    path = ostler.work / "state.json"
    path.write_bytes(
        encode_state(
            SavedState((AgentMessage(0, "agent", "Before.", 1.0), AgentMessage(1, "user", "And?", 2.0)))
        )
    )
    with serving_agent(ostler, "-s", str(path), agent=scripted(ostler, [GREETING])) as served:
        served.until_stable()
        assert served.messages == [("agent", "Before."), ("user", "And?"), HELLO]


def test_a_signal_saves_the_state_and_the_server_keeps_running(ostler: Ostler) -> None:
    path = ostler.work / "state.json"
    with serving_agent(ostler, "-s", str(path), agent=scripted(ostler, BASIC)) as served:
        served.until_stable()
        served.say(PROMPT)
        served.until_stable()
        served.signal(SIGUSR1)
        wait_until(lambda: path.exists() and b"Echo: This" in path.read_bytes())
        before = path.stat()
        served.signal(SIGUSR1)
        assert served.status == "stable"
        assert served.end(SIGTERM).code == 0
        assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_without_a_file_that_signal_does_nothing_nor_does_a_hangup_with_nohup(ostler: Ostler) -> None:
    with serving_agent(ostler, agent=scripted(ostler, BASIC), through=("nohup",)) as served:
        served.signal(SIGUSR1)
        served.signal(SIGHUP)
        served.until_stable()
        assert served.end().code == 0


def test_loading_and_saving_can_be_switched_off(ostler: Ostler) -> None:
    path = ostler.work / "state.json"
    path.write_bytes(encode_state(SavedState((AgentMessage(0, "agent", "Before.", 1.0),))))
    before = path.read_bytes()
    options = ("-s", str(path), "--save-state=false")
    with serving_agent(ostler, *options, agent=scripted(ostler, [GREETING])) as served:
        served.until_stable()
        assert served.messages == [("agent", "Before.")]
        assert served.end().code == 0
    assert path.read_bytes() == before
    with serving_agent(
        ostler, "-s", str(path), agent=scripted(ostler, [GREETING]), AGENTAPI_LOAD_STATE="0"
    ) as served:
        served.until_stable()
        assert served.messages == [HELLO]
        assert served.end().code == 0
    assert b"Hello!" in path.read_bytes()


def test_an_impossible_path_is_reported_before_the_agent_starts(ostler: Ostler) -> None:
    (ostler.work / "file").write_text("")
    for path, said in (("file/state.json", "cannot be stored in"), (".", "is a directory")):
        ran = ostler("serve", "--port", "0", "--state-file", path, "--", "touch", "started")
        assert ran.code == 2
        assert ran.err.count("\n") == 1
        assert said in ran.err
    assert not (ostler.work / "started").exists()
