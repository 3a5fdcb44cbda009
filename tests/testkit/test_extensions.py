"""Tests of extensions: actions and assertions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler.extensions import (
    DraftMessage,
    ExtensionAPI,
    ExtensionContext,
    FinishedCall,
    Handled,
    InputDraft,
    PlannedCall,
    PlannedFork,
    PlannedSwitch,
    Refuse,
    Replace,
    Rewrite,
    SessionOpened,
    StepPlan,
)
from ostler.extensions.host import CommandFailed
from ostler.extensions.ui.types import Widget
from ostler.models.scripted import Call
from ostler.schema import events
from ostler.schema.errors import NotFound, UsageError
from ostler.schema.messages import as_content, text_of
from ostler.testkit.extensions import ExtensionTest
from ostler.testkit.front_end import FakeFrontEnd

GATE = """
from ostler.extensions import ExtensionAPI, PlannedCall, Refuse
from words import DANGEROUS


def setup(ostler: ExtensionAPI) -> None:
    @ostler.before_tool
    def gate(call: PlannedCall) -> Refuse | None:
        command = call.arguments.get("command", "")
        return Refuse(f"{command!r} is dangerous") if command in DANGEROUS else None
"""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    (tmp_path / "gate.py").write_text(GATE)
    (tmp_path / "words.py").write_text("DANGEROUS = ['rm -rf /']\n")
    return tmp_path / "gate.py"


def all_of_it(ostler: ExtensionAPI) -> None:
    """Uses most of the API."""

    @ostler.on(events.RunEnded)
    def count(ended: events.RunEnded, context: ExtensionContext) -> None:
        context.state["runs"] = context.state.get("runs", 0) + 1
        context.print_info(f"run {context.state['runs']} {ended.status}")

    @ostler.on("greet")
    def greet(name: str, context: ExtensionContext) -> None:
        context.print(f"hello {name}")

    @ostler.input
    def translate(draft: InputDraft) -> Any:
        if draft.text == "ping":
            return Handled("pong")
        return draft.with_text(draft.text.upper())

    @ostler.command("show")
    async def show(arguments: str, context: ExtensionContext) -> str:
        context.ui.set_widget(Widget("list", f"- {arguments}"))
        context.ui.set_header("at the top")
        context.ui.set_footer("at the bottom")
        context.ui.set_status("count", "1 thing")
        context.ui.set_widget(Widget("gone", "soon"))
        context.ui.remove_widget("gone")
        if not (await context.ui.confirm("Sure?")).value:
            context.print_error("then not")
        return f"showed {arguments}"

    @ostler.command("send")
    async def send(arguments: str, context: ExtensionContext) -> None:
        await context.send(f"please {arguments}")

    @ostler.command("instead")
    async def instead(arguments: str, context: ExtensionContext) -> None:
        await context.cancel_and_send(arguments)

    @ostler.command("fail")
    def fail(arguments: str) -> None:
        raise ValueError("on purpose")

    @ostler.shortcut("ctrl+s")
    def save(context: ExtensionContext) -> None:
        context.print_block("saved", title="all")

    @ostler.tool
    def add(a: int, b: int) -> int:
        "Adds two numbers."
        return a + b

    @ostler.after_tool
    def praise(result: FinishedCall) -> FinishedCall:
        changed = as_content(f"{text_of(result.content)}!")
        return FinishedCall(
            result.call, result.name, result.arguments, changed, result.failed, result.details
        )


# --- actions ----------------------------------------------------------------------------------------


async def test_an_extension_is_loaded_with_the_files_beside_it(gate: Path) -> None:
    async with ExtensionTest(gate) as test:
        test.assert_handles("before_tool")
        assert list(test.host.extensions) == ["gate"]


async def test_an_extension_that_cannot_be_loaded_raises_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def setup(ostler):\n    ostler.nothing()\n")
    with pytest.raises(AssertionError, match=r"bad cannot be loaded: .*nothing.* \(bad.py:2\)"):
        await ExtensionTest(tmp_path / "bad.py").__aenter__()
    with pytest.raises(UsageError, match="there is no extension"):
        await ExtensionTest(tmp_path / "none.py").__aenter__()

    def fails(ostler: ExtensionAPI) -> None:
        raise ValueError("no")

    with pytest.raises(AssertionError, match=r"cannot be loaded: ValueError: no \(test_extensions.py:"):
        await ExtensionTest(fails).__aenter__()


async def test_tool_call_asks_the_guards_and_runs_no_missing_tool(gate: Path) -> None:
    async with ExtensionTest(gate) as test:
        test.assert_blocked(await test.tool_call("bash", {"command": "rm -rf /"}), "is dangerous")
        allowed = await test.tool_call("bash", {"command": "ls"})
        test.assert_not_blocked(allowed)
        assert test.ran == [("bash", {"command": "ls"})]
        planned = PlannedCall("call_1", "bash", "execute", {"command": "rm -rf /"}, 1)
        test.assert_blocked(await test.emit(planned), "is dangerous")


async def test_tool_call_runs_an_existing_tool() -> None:
    async with ExtensionTest(all_of_it, options={"limit": "3"}) as test:
        result = await test.tool_call("add", {"a": 1, "b": 2})
        assert text_of(result.content) == "3!"
        assert test.ran == []
        assert test.context.option("limit") == "3"


async def test_tool_call_raises_if_the_call_is_never_made() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run
        def never(plan: Any) -> Refuse:
            return Refuse("closed on Sundays")

    async with ExtensionTest(setup) as test:
        with pytest.raises(AssertionError, match=r"bash was never called: .*closed on Sundays"):
            await test.tool_call("bash")


async def test_a_prompt_runs_with_the_script() -> None:
    script = [Call("add", {"a": 1, "b": 2}), "It is 3."]
    async with ExtensionTest(all_of_it, script) as test:
        ended = await test.prompt("what is 1 + 2?")
        assert isinstance(ended, events.RunEnded) and ended.status == "completed"
        assert test.model.requests[0].transcript[0].text == "WHAT IS 1 + 2?"
        assert test.state == {"runs": 1}
        assert any(isinstance(fact, events.ToolResultFact) for fact in test.facts)
        test.assert_printed_info("run 1 completed")


async def test_emit_calls_the_handlers_and_returns_their_decision() -> None:
    seen: list[Any] = []

    def setup(ostler: ExtensionAPI) -> None:
        ostler.on(events.Warned, SessionOpened)(seen.append)
        ostler.on("mine")(seen.append)
        ostler.before_step(lambda plan: Refuse("enough"))
        ostler.before_tool(lambda call: Rewrite({"path": "b"}))
        ostler.before_message(lambda draft: Replace("other words"))
        ostler.before_fork(lambda planned: Refuse("no copies"))
        ostler.before_switch(lambda planned: None)

    async with ExtensionTest(setup) as test:
        warned = events.Warned("careful")
        assert await test.emit(warned) is None
        await test.emit("mine", {"a": 1})
        assert seen == [SessionOpened(test.session.id), warned, {"a": 1}]
        assert await test.emit(StepPlan(1, test.model, ())) == Refuse("enough")
        call = PlannedCall("call_1", "read", "read", {"path": "a"}, 1)
        assert await test.emit(call) == Rewrite({"path": "b"})
        assert await test.emit(DraftMessage("words", (), "end")) == Replace("other words")
        assert await test.emit(PlannedFork(test.session.id, 1)) == Refuse("no copies")
        assert await test.emit(PlannedSwitch(test.session.id, "new")) is None


async def test_command_runs_and_the_front_end_answers_its_questions() -> None:
    async with ExtensionTest(all_of_it, face=FakeFrontEnd("yes", "no")) as test:
        assert await test.command("/show", "apples") == "showed apples"
        assert await test.command("show", "pears") == "showed pears"
        assert [asked.question.text for asked in test.questions] == ["Sure?", "Sure?"]
        assert test.errors == ["then not"]
        test.assert_printed_error("then not")
        with pytest.raises(CommandFailed, match="on purpose"):
            await test.command("fail")
        with pytest.raises(NotFound, match="there is no command"):
            await test.command("unknown")


async def test_press_runs_shortcuts() -> None:
    async with ExtensionTest(all_of_it) as test:
        await test.press("ctrl+s")
        assert test.blocks == ["saved"]
        test.assert_printed("saved")


async def test_go_on_runs_the_prompts_that_an_extension_sent() -> None:
    async with ExtensionTest(all_of_it, ["done", "done"]) as test:
        await test.command("send", "go")
        assert test.sent == ["please go"]
        assert not test.model.requests
        await test.go_on()
        assert [request.transcript[0].text for request in test.model.requests] == ["PLEASE GO"]


# --- assertions -------------------------------------------------------------------------------------


async def test_failed_assertions_about_calls_name_the_result(gate: Path) -> None:
    async with ExtensionTest(gate) as test:
        refused = await test.tool_call("bash", {"command": "rm -rf /"})
        allowed = await test.tool_call("bash", {"command": "ls"})
        with pytest.raises(AssertionError, match="its result is 'done'"):
            test.assert_blocked(allowed)
        with pytest.raises(AssertionError, match=r"is dangerous.*, not 'too long'"):
            test.assert_blocked(refused, "too long")
        with pytest.raises(AssertionError, match=r"the call was refused: .*dangerous"):
            test.assert_not_blocked(refused)


async def test_failed_assertions_about_input_name_the_result() -> None:
    async with ExtensionTest(all_of_it) as test:
        ping = await test.emit(InputDraft(as_content("ping")))
        test.assert_input_handled(ping)
        test.assert_input_handled(ping, "pong")
        hello = await test.emit(InputDraft(as_content("hello")))
        test.assert_input_transformed(hello, "HELLO")
        with pytest.raises(AssertionError, match="answered with 'pong', not 'ping'"):
            test.assert_input_handled(ping, "ping")
        with pytest.raises(AssertionError, match="was not handled; its result is 'HELLO'"):
            test.assert_input_handled(hello)
        with pytest.raises(AssertionError, match="the input became 'HELLO', not 'hello'"):
            test.assert_input_transformed(hello, "hello")


async def test_failed_assertions_about_printed_texts_list_them() -> None:
    async with ExtensionTest(all_of_it) as test:
        await test.emit("greet", "Ann")
        test.assert_printed("hello Ann")
        test.assert_printed_contains("lo An")
        for wrong in (test.assert_printed, test.assert_printed_contains):
            with pytest.raises(
                AssertionError, match=r"'hello Bob' was not .*; these texts were: 'hello Ann'"
            ):
                wrong("hello Bob")
        for wrong in (test.assert_printed_info, test.assert_printed_error):
            with pytest.raises(AssertionError, match="these texts were: none"):
                wrong("hello Ann")


async def test_failed_assertions_about_the_screen_name_its_content() -> None:
    async with ExtensionTest(all_of_it, face=FakeFrontEnd("yes")) as test:
        with pytest.raises(AssertionError, match="there is no header"):
            test.assert_header()
        await test.command("show", "apples")
        test.assert_widget("list")
        test.assert_no_widget("gone")
        test.assert_widget_text("list", "- apples")
        test.assert_widget_contains("list", "apple")
        test.assert_header()
        test.assert_header("at the top")
        test.assert_footer("at the bottom")
        test.assert_status("count")
        test.assert_status_text("count", "1 thing")
        assert list(test.widgets) == ["list"]
        assert test.status == {"count": "1 thing"}
        assert "at the top" in await test.face.screen()
        with pytest.raises(AssertionError, match="there is no widget 'gone'; there are: list"):
            test.assert_widget("gone")
        with pytest.raises(AssertionError, match="there is a widget 'list': '- apples'"):
            test.assert_no_widget("list")
        with pytest.raises(AssertionError, match="shows '- apples', not 'apples'"):
            test.assert_widget_text("list", "apples")
        with pytest.raises(AssertionError, match="shows '- apples', which does not contain 'pear'"):
            test.assert_widget_contains("list", "pear")
        with pytest.raises(AssertionError, match="the footer shows 'at the bottom', not 'x'"):
            test.assert_footer("x")
        with pytest.raises(AssertionError, match="there is no status 'other'; there are: count"):
            test.assert_status("other")
        with pytest.raises(AssertionError, match="says '1 thing', not '2 things'"):
            test.assert_status_text("count", "2 things")


async def test_failed_assertions_about_registrations_list_them(gate: Path) -> None:
    async with ExtensionTest(all_of_it) as test:
        test.assert_handles(events.RunEnded, "greet", "input", "after_tool")
        test.assert_does_not_handle(events.RunStarted, "before_tool")
        test.assert_tool("add")
        test.assert_command("/show")
        with pytest.raises(AssertionError, match="nothing handles RunStarted; it handles: input, after_tool"):
            test.assert_handles(events.RunStarted)
        with pytest.raises(AssertionError, match="it handles RunEnded"):
            test.assert_does_not_handle(events.RunEnded)
        with pytest.raises(AssertionError, match="there is no tool 'subtract'; there are: add"):
            test.assert_tool("subtract")
        with pytest.raises(AssertionError, match="there is no command 'hide'; there are: show"):
            test.assert_command("hide")


async def test_failed_assertions_about_sent_prompts_list_them() -> None:
    async with ExtensionTest(all_of_it) as test:
        await test.command("send", "go")
        test.assert_sent("please go")
        with pytest.raises(AssertionError, match="'go' was not sent; these texts were: 'please go'"):
            test.assert_sent("go")
        with pytest.raises(AssertionError, match="these texts were: none"):
            test.assert_cancelled_and_sent("please go")
        await test.command("instead", "stop")
        test.assert_cancelled_and_sent("stop")
        assert test.steered == []
