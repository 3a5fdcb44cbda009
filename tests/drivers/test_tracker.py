from __future__ import annotations

import math
from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.drivers.agent_spec import Timing
from ostler.drivers.driver import ASKS_FIRST, AgentMessage, Delivered, SavedState, Undelivered
from ostler.drivers.tracker import INITIAL_PROMPT, Tracker, Write
from ostler.schema.errors import SessionBusy, UsageError
from tests.drivers.played import EchoAgent, Played

ANY = "no box is known of this one"
BOXED = "hello\n>"


def ready_echo(answer: str = "fine", **options: object) -> Played:
    agent = EchoAgent(lambda said: answer)
    played = Played(Tracker("custom", 0.0, **options), agent, screen=agent.screen)  # type: ignore[arg-type]
    played.run(3)
    return played


@pytest.mark.parametrize(
    ("interval", "stability", "screens", "statuses"),
    [
        (1, 2, "11112", "iissc"),
        (2, 3, "111122222", "iissccsss"),
        (6, 14, "1111112222", "iiissscccs"),
    ],
)
def test_the_status_follows_the_screen(interval: int, stability: int, screens: str, statuses: str) -> None:
    tracker = Tracker(ANY, 0.0, timing=Timing(look_interval=interval, stability=stability))
    seen = ""
    for number, screen in enumerate(screens):
        tracker.look(number * interval, screen)
        seen += tracker.status[0]
    assert seen == statuses


class Polled:
    """The plain way to tell a status: a look at every tick, and the last looks compared."""

    def __init__(self, ticks: int) -> None:
        self.looks: deque[str] = deque(maxlen=ticks + 1)

    def stable(self, screen: str) -> bool:
        self.looks.append(screen)
        return len(self.looks) == self.looks.maxlen and len(set(self.looks)) == 1


@given(st.lists(st.tuples(st.integers(1, 60), st.sampled_from("ab")), max_size=20))
def test_looking_only_when_wanted_gives_the_status_that_polling_gives(changes: list[tuple[int, str]]) -> None:
    tick, ticks = 1 / 32, 32
    timing = Timing(look_interval=tick, stability=tick * ticks, quiet=0.0, longest_frame=0.0)
    tracker, polled = Tracker(ANY, 0.0, timing=timing), Polled(ticks)
    schedule: dict[int, str] = {}
    at = 0
    for gap, screen in changes:
        at += gap
        schedule[at] = screen
    screen, looks = "", 0
    for number in range(at + 3 * ticks):
        now = number * tick
        if number in schedule:
            screen = schedule[number]
            tracker.output(now)
        while (wanted := tracker.wants_look_at()) is not None and wanted <= now:
            tracker.look(now, screen)
            looks += 1
        assert (tracker.status == "stable") is polled.stable(screen)
    assert tracker.wants_look_at() is None
    assert looks <= 2 * len(changes) + 2


def test_an_idle_agent_is_not_looked_at() -> None:
    played = Played(Tracker(ANY, 0.0), screen="hello")
    played.run(10)
    looks = played.looks
    played.run(100_000)
    assert played.looks == looks == 2
    assert played.tracker.status == "stable"


def test_a_busy_agent_is_looked_at_once_a_frame() -> None:
    played = Played(Tracker(ANY, 0.0))
    for number in range(10_000):
        played.draw(f"frame {number}", after=number / 1000)
    played.run(10)
    assert played.looks <= 10 / 0.025 + 2
    assert played.tracker.status == "changing"
    played.run(3)
    assert played.texts == ["agent: frame 9999"]
    assert played.tracker.status == "stable"


def test_a_frame_is_read_when_it_is_complete() -> None:
    tracker = Tracker(ANY, 0.0)
    tracker.look(0.0, "")
    tracker.output(1.0)
    assert tracker.wants_look_at() == pytest.approx(1.016)
    for number in range(20):
        tracker.output(1.0 + number / 100)
    assert tracker.wants_look_at() == pytest.approx(1.048)
    tracker.output(1.2, drawing=True)
    assert tracker.wants_look_at() == pytest.approx(1.150)


def test_messages_are_separated_by_the_screen_before_them() -> None:
    answers = iter(["1\n3", "1\n3x\n5"])
    played = Played(Tracker("custom", 0.0, ready_regex="1"), screen="1")
    played.react = lambda keys: [(0.01, next(answers))] if keys == b"\r" else []
    played.run(3)
    assert played.texts == ["agent: 1"]
    played.send("2")
    played.run(10)
    assert played.texts == ["agent: 1", "user: 2", "agent: 3"]
    played.draw("1\n3x")
    played.run(3)
    assert played.texts == ["agent: 1", "user: 2", "agent: 3x"]
    played.send("4")
    played.run(10)
    assert played.texts == ["agent: 1", "user: 2", "agent: 3x", "user: 4", "agent: 5"]


def test_a_message_is_pasted_and_entered_once_its_echo_stands_still() -> None:
    played = ready_echo()
    begun = played.now
    ticket = played.send("how are you?")
    assert played.tracker.status == "changing"
    played.run(5)
    assert [data for _, data in played.written] == [
        b"x\x08", b"\x1b[200~", b"how are you?", b"\x1b[201~", b"\r",
    ]  # fmt: skip
    ((delivered, outcome),) = played.outcomes
    assert outcome == Delivered(ticket)
    assert delivered - begun == pytest.approx(1.1, abs=0.05)
    assert played.texts == ["agent: hello", "user: how are you?", "agent: fine"]
    assert played.tracker.status == "stable"
    assert played.tracker.messages[1].time == pytest.approx(begun, abs=0.001)


def test_the_echo_is_no_part_of_any_message() -> None:
    played = ready_echo()
    seen = set()
    played.send("how are you?")
    for _ in range(500):
        played.run(0.01)
        seen.update(played.texts)
    assert not any("how" in text for text in seen if text.startswith("agent"))


def test_a_program_without_bracketed_paste_is_typed_to() -> None:
    played = ready_echo()
    played.bracketed_paste = False
    played.send("one\ntwo")
    played.run(0.1)
    assert [data for _, data in played.written] == [b"one\ntwo"]


def test_no_text_can_end_its_own_paste() -> None:
    played = ready_echo()
    played.send("a\x1b[20\x1b[201~1~\rrm -rf")
    played.run(0.1)
    written = b"".join(data for _, data in played.written)
    assert written.count(b"\x1b[201~") == 1
    assert written.endswith(b"\x1b[201~")


def test_the_same_answer_twice_is_two_messages() -> None:
    played = ready_echo()
    for _ in range(3):
        played.send("again")
        played.run(10)
        assert played.tracker.status == "stable"
    assert played.texts == ["agent: hello", *["user: again", "agent: fine"] * 3]


def test_an_agent_that_does_not_echo_gets_its_message_too() -> None:
    played = Played(
        Tracker(ANY, 0.0), lambda keys: [(0.01, "answer")] if keys == b"\r" else [], screen="hello"
    )
    played.run(3)
    begun = played.now
    ticket = played.send("how are you?")
    played.run(5)
    assert played.outcomes[0][1] == Delivered(ticket)
    assert played.outcomes[0][0] - begun == pytest.approx(2.05, abs=0.05)


def test_an_agent_that_does_not_react_is_reported_and_forgotten() -> None:
    played = Played(Tracker(ANY, 0.0), screen="hello")
    played.run(3)
    begun = played.now
    ticket = played.send("how are you?")
    for _ in range(180):
        played.run(0.1)
        assert played.tracker.status == ("stable" if played.outcomes else "changing")
    ((failed, outcome),) = played.outcomes
    assert outcome == Undelivered(
        ticket, "failed to wait for processing to start: timeout waiting for condition"
    )
    assert failed - begun == pytest.approx(17, abs=0.1)
    entered = [time - begun for time, data in played.written if data == b"\r"]
    assert entered == pytest.approx([2, 5, 8, 11, 14], abs=0.1)
    assert played.texts == ["agent: hello"]
    assert played.tracker.status == "stable"


def test_an_echo_that_does_not_settle_does_not_hold_the_message_up() -> None:
    played = Played(Tracker(ANY, 0.0), screen="hello")
    played.run(3)
    played.send("how are you?")
    for number in range(100):
        played.draw(f"spinner {number}", after=0.01 + number / 10)
    played.run(5)
    assert isinstance(played.outcomes[0][1], Delivered)
    assert played.outcomes[0][0] < 3 + 3.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "message must not be empty"),
        (" padded", "message must be trimmed of leading and trailing whitespace"),
        ("padded\v", "message must be trimmed of leading and trailing whitespace"),
    ],
)
def test_a_message_that_says_nothing_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        ready_echo().send(text)


def test_a_message_is_refused_while_the_agent_is_busy() -> None:
    played = Played(Tracker(ANY, 0.0), screen="hello")
    refused = pytest.raises(SessionBusy, match="only be sent when the agent is waiting for user input")
    with refused:
        played.send("too early")
    played.run(3)
    played.send("first")
    with refused:
        played.send("second")
    played.run(0.5)
    with refused:
        played.send("third")
    played.run(20)
    played.send("fourth")


def test_a_message_that_finds_the_screen_moving_waits_and_then_fails() -> None:
    played = Played(Tracker(ANY, 0.0), screen="hello")
    played.run(3)
    played.draw("moving")
    ticket = played.send("hello")
    played.tracker.look(played.now, "moving")
    for number in range(200):
        played.draw(f"moving {number}", after=number / 10)
    played.run(20)
    assert played.outcomes[0][1] == Undelivered(
        ticket, "message can only be sent when the agent is waiting for user input"
    )
    assert played.written == []


def test_stopping_fails_what_is_on_its_way() -> None:
    played = Played(Tracker(ANY, 0.0), screen="hello")
    played.run(3)
    ticket = played.send("hello")
    played.run(0.1)
    assert played.tracker.stop() == [Undelivered(ticket, "context canceled")]
    assert played.tracker.stop() == []
    played.run(20)
    assert [data for _, data in played.written if data == b"\r"] == []


def test_an_agent_is_busy_until_it_shows_its_input_box() -> None:
    played = Played(Tracker("claude", 0.0), screen="Loading")
    played.run(60)
    assert played.tracker.status == "changing"
    with pytest.raises(SessionBusy):
        played.send("hello")
    played.draw("\n".join(["hello", "─" * 40, "❯", "─" * 40]))
    played.run(3)
    assert played.tracker.status == "stable"


def test_an_agent_whose_prompt_is_gone_gets_no_message() -> None:
    played = ready_echo()
    played.draw("a menu without a prompt")
    played.run(3)
    assert played.tracker.status == "changing"  # it may be at work
    with pytest.raises(SessionBusy):
        played.send("hello")
    played.run(10)
    assert played.tracker.status == "asking"
    assert played.tracker.dialog is not None
    assert (played.tracker.dialog.dialog.kind, played.tracker.dialog.dialog.choices) == ("keys", ())
    with pytest.raises(SessionBusy, match="it asks a question"):
        played.send("hello")
    assert played.written == []
    played.draw("hello\n>")
    played.run(3)
    assert (played.tracker.status, played.tracker.dialog) == ("stable", None)


def test_a_custom_agent_without_a_prompt_is_ready_when_nothing_changes() -> None:
    played = Played(Tracker("custom", 0.0), screen="What now?")
    played.run(9.9)
    assert played.tracker.status == "changing"
    played.run(0.2)
    assert played.tracker.status == "stable"


def test_the_time_until_ready_can_be_set() -> None:
    played = Played(Tracker("custom", 0.0, ready_after=30.0), screen="What now?")
    played.run(29.9)
    assert played.tracker.status == "changing"
    played.run(0.2)
    assert played.tracker.status == "stable"


def test_a_known_agent_that_is_ready_without_its_input_box_asks() -> None:
    played = Played(Tracker("claude", 0.0, ready_after=5.0), screen="What now?")
    played.run(5.1)
    assert (played.tracker.ready, played.tracker.status) == (True, "changing")
    played.run(5)
    assert played.tracker.status == "asking"


def test_a_pattern_says_what_the_input_box_of_a_known_agent_looks_like() -> None:
    played = Played(Tracker("claude", 0.0, ready_regex="^What now"), screen="What now?")
    played.run(3)
    assert played.tracker.status == "stable"
    played.draw("What now?\nMay I?\n❯ 1. Yes\n  2. No")
    played.run(3)
    assert played.tracker.status == "asking"


def test_a_pattern_can_say_what_ready_looks_like() -> None:
    played = Played(Tracker("custom", 0.0, ready_regex=r"^now\?$", ready_after=math.inf), screen=BOXED)
    played.run(30)
    assert played.tracker.status == "changing"
    played.draw("what\nnow?\n")
    played.run(3)
    assert played.tracker.status == "stable"
    with pytest.raises(UsageError, match="no regular expression"):
        Tracker("custom", 0.0, ready_regex="(")


def test_amp_gets_a_key_that_stops_its_logo() -> None:
    played = Played(Tracker("amp", 0.0))
    played.run(1)
    assert played.written == []
    played.draw("logo")
    played.run(1)
    assert [data for _, data in played.written] == [b" \x08"]


def test_the_initial_prompt_is_sent_once_the_agent_is_ready() -> None:
    agent = EchoAgent(lambda said: f"heard {said}")
    played = Played(Tracker("custom", 0.0, initial_prompt=" begin\n"), agent, screen="starting")
    played.draw(agent.screen, after=4)
    statuses = set()
    while len(played.outcomes) < 1:
        played.run(0.1)
        statuses.add(played.tracker.status)
    assert "stable" not in statuses
    played.run(10)
    assert [outcome for _, outcome in played.outcomes] == [Delivered(INITIAL_PROMPT)]
    assert played.texts == ["agent: hello", "user: begin", "agent: heard begin"]
    assert played.tracker.to_save().initial_prompt_sent


def test_an_initial_prompt_that_fails_is_tried_again_and_reported() -> None:
    played = Played(Tracker(ANY, 0.0, initial_prompt="begin"), screen="hello")
    played.run(200)
    assert [outcome.again for _, outcome in played.outcomes if isinstance(outcome, Undelivered)] == [
        True, True, False,
    ]  # fmt: skip
    assert played.tracker.status == "stable"
    assert not played.tracker.to_save().initial_prompt_sent


OLD = (
    AgentMessage(0, "agent", "welcome", 1.0),
    AgentMessage(1, "user", "old question", 2.0),
    AgentMessage(2, "agent", "old answer", 3.0),
)


def test_a_restored_conversation_keeps_its_last_answer_until_the_user_speaks() -> None:
    played = ready_echo(saved=SavedState(OLD))
    assert played.tracker.messages == OLD
    played.draw("another greeting\n>")
    played.run(3)
    assert played.tracker.messages == OLD
    played.send("new question")
    played.run(10)
    assert played.texts[3:] == ["user: new question", "agent: fine"]


def test_a_restored_question_is_answered_by_the_screen() -> None:
    played = ready_echo(saved=SavedState(OLD[:2]))
    assert played.texts == ["agent: welcome", "user: old question", "agent: hello"]
    assert played.tracker.status == "stable"


@pytest.mark.parametrize(
    ("given_prompt", "saved_prompt", "sent", "sent_now"),
    [
        ("new", "old", True, "new"),
        ("old", "old", True, ""),
        ("old", "old", False, "old"),
        ("", "old", True, ""),
        ("", "old", False, "old"),
        ("new", "", False, "new"),
    ],
)
def test_a_prompt_is_not_sent_again_after_a_restart(
    given_prompt: str, saved_prompt: str, sent: bool, sent_now: str
) -> None:
    played = ready_echo(initial_prompt=given_prompt, saved=SavedState(OLD, saved_prompt, sent))
    played.run(10)
    said = [message.text for message in played.tracker.messages[3:] if message.role == "user"]
    assert said == ([sent_now] if sent_now else [])
    assert played.tracker.to_save().initial_prompt == (given_prompt or saved_prompt)


def test_the_state_to_save_changes_only_with_the_screen() -> None:
    played = ready_echo()
    saved = played.tracker.to_save()
    played.run(100)
    assert played.tracker.to_save() == saved
    played.draw("something else\n>")
    played.run(1)
    assert played.tracker.to_save() != saved


def test_messages_have_the_time_of_day() -> None:
    played = Played(Tracker(ANY, 0.0, epoch=1_000_000.0), screen="")
    played.draw("hello", after=5)
    played.run(10)
    assert played.tracker.messages[0].time == pytest.approx(1_000_005, abs=0.1)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0, 4)),
        st.tuples(st.just("draw"), st.sampled_from(["hello\n>", "a\nb", "", "x\n> y\n>", "> \u6728\n>"])),
        st.tuples(st.just("send"), st.sampled_from(["one", "two words", "\u6728", "a\nb"])),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(actions, st.sampled_from(["custom", "claude", "goose", ANY]), st.booleans(), st.booleans())
def test_whatever_happens_in_whatever_order(
    acts: list[tuple[str, object]], agent_type: str, reacts: bool, prompted: bool
) -> None:
    agent = EchoAgent(lambda said: f"heard {said}")
    tracker = Tracker(agent_type, 0.0, initial_prompt="begin" if prompted else "")
    played = Played(tracker, agent if reacts else lambda keys: (), screen=agent.screen)
    tickets = []
    for kind, value in acts:
        before = list(tracker.messages)
        if kind == "wait":
            played.run(float(str(value)))
        elif kind == "draw":
            played.draw(str(value))
        elif kind == "look":
            played.carry_out(tracker.look(played.now, played.screen))
        elif tracker.status == "stable":
            tickets.append(played.send(str(value)))
            assert tracker.status == "changing"
        else:
            with pytest.raises(SessionBusy):
                played.send(str(value))
        after = list(tracker.messages)
        assert [message.id for message in after] == list(range(len(after)))
        assert after[: len(before) - 1] == before[:-1]
        assert not any(one.role == other.role for one, other in pairwise(after))
    played.run(120)
    outcomes = [outcome.ticket for _, outcome in played.outcomes if outcome.ticket != INITIAL_PROMPT]
    assert outcomes == tickets
    assert tracker.wants_look_at() is None
    if tracker.ready:  # its input box may have vanished for good, which is a dialog that cannot be read
        assert tracker.status == ("asking" if tracker.dialog else "stable")
    delivered = sum(isinstance(outcome, Delivered) for _, outcome in played.outcomes)
    assert sum(message.role == "user" for message in tracker.messages) == delivered


def test_a_mark_that_blinks_while_the_agent_asks_keeps_it_neither_busy_nor_talking() -> None:
    question = "⏺ I will.\n\n{} Plant\n  ⎿  $ plant\n\nDo you want to proceed?\n❯ 1. Yes\n  2. No"
    box = "─" * 60
    played = Played(Tracker("claude", 0.0), screen=f"hello\n{box}\n❯\n{box}")
    played.run(3)
    for number in range(12):
        played.draw(question.format("⏺ "[number % 2]), after=0.6 * number)
    played.run(7)
    assert played.tracker.status == "asking"
    dialog = played.tracker.dialog
    assert dialog is not None and dialog.dialog.labels == ("Yes", "No")
    assert played.texts == [f"agent: {question.format('⏺')}"]
    saved = played.tracker.to_save()
    played.draw(question.format("⏺"))
    played.draw(question.format(" "), after=1)
    played.run(2)
    assert played.tracker.dialog == dialog
    assert played.tracker.to_save() == saved


BOX = f"{'─' * 60}\n> {{}}\n{'─' * 60}"
QUESTION = "May I?\n❯ 1. Yes\n  2. No\n\n Esc to cancel"


def ready_claude(**options: object) -> Played:
    played = Played(Tracker("claude", 0.0, **options), screen=BOX.format(""))  # type: ignore[arg-type]
    played.run(3)
    return played


def test_a_dialog_that_appears_before_the_text_is_typed_fails_the_message() -> None:
    played = ready_claude()
    ticket = played.send("hello")
    events = played.tracker.look(played.now, played.screen)
    assert [event.data for event in events if isinstance(event, Write)][2] == b"hello"
    assert played.tracker.refuse_typing(QUESTION) == [Undelivered(ticket, ASKS_FIRST)]
    played.draw(QUESTION)
    played.run(20)
    assert played.written == []
    assert played.tracker.status == "asking"


def test_text_that_still_finds_the_input_box_may_be_typed() -> None:
    played = ready_claude()
    played.send("hello")
    played.tracker.look(played.now, played.screen)
    assert played.tracker.refuse_typing(f"a hint\n{played.screen}") == []


def test_a_dialog_that_appears_before_enter_is_not_confirmed() -> None:
    played = ready_claude()
    played.react = lambda keys: [(0.01, QUESTION)] if keys == b"hello" else []
    ticket = played.send("hello")
    played.run(30)
    assert b"\r" not in [keys for _, keys in played.written]
    assert [outcome for _, outcome in played.outcomes] == [Undelivered(ticket, ASKS_FIRST)]
    assert played.tracker.status == "asking"


def test_enter_is_not_repeated_into_a_dialog() -> None:
    """The first one was missed, and the agent asks something before the second."""
    played = ready_claude()
    played.react = lambda keys: [(0.01, BOX.format("hello"))] if keys == b"hello" else []
    played.send("hello")
    played.run(2)
    assert [keys for _, keys in played.written].count(b"\r") == 1
    played.tracker.output(played.now, announced="asking")
    played.run(30)
    assert [keys for _, keys in played.written].count(b"\r") == 1


@pytest.mark.parametrize("text", ["1. Yes\n2. No", "Choose:\n 1. Yes\n 2. No", "a\n" * 20 + "b"])
def test_a_message_whose_echo_looks_like_a_dialog_is_sent(text: str) -> None:
    played = ready_claude()
    echo = "❯ " + text.replace("\n", "\n  ")

    def react(keys: bytes) -> list[tuple[float, str]]:
        if keys == b"\r":
            return [(0.01, f"● Fine.\n{BOX.format('')}")]
        return [(0.01, f"{'─' * 60}\n{echo}\n{'─' * 60}")] if keys == text.encode() else []

    played.react = react
    ticket = played.send(text)
    played.run(10)
    assert [outcome for _, outcome in played.outcomes] == [Delivered(ticket)]


def test_an_announced_dialog_keeps_an_agent_from_being_stable() -> None:
    played = ready_claude()
    played.tracker.output(played.now, announced="asking")
    played.run(1)
    assert played.tracker.status == "changing"
    with pytest.raises(SessionBusy):
        played.send("hello")
    played.run(20)
    assert played.tracker.status == "asking"
    played.tracker.output(played.now, announced="idle")
    played.run(3)
    assert played.tracker.status == "stable"


def test_an_announced_dialog_need_not_stand_still_for_long() -> None:
    played = ready_claude()
    played.draw(QUESTION)
    played.run(0.2)
    assert played.tracker.status == "changing"
    played.tracker.output(played.now, announced="asking")
    played.run(0.3)
    assert played.tracker.status == "asking"


def test_an_agent_that_announces_to_be_at_work_is_not_asked_about_soon() -> None:
    played = ready_claude()
    played.draw(QUESTION)
    played.run(0.1)
    played.tracker.output(played.now, announced="working")
    played.run(5)
    assert played.tracker.status == "changing"
    played.run(10)
    assert played.tracker.status == "asking"


def test_an_initial_prompt_waits_for_the_answer_to_a_dialog() -> None:
    played = Played(Tracker("claude", 0.0, initial_prompt="hello"), screen=QUESTION)
    played.run(30)
    assert (played.tracker.status, played.written) == ("asking", [])
    played.draw(BOX.format(""))
    played.run(4)
    assert b"hello" in [keys for _, keys in played.written]
