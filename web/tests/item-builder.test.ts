import { describe, expect, it } from "vitest";
import { fold } from "../src/transcript/item-builder";
import { type Block, type ToolBlock, childIn, childrenToRead, emptyView, openQuestions, visibleBlocks, withChild } from "../src/transcript/session-view";
import { leastCost, totalTokens } from "../src/text/format";
import type { Frame } from "../src/api/types";
import { Log, delta, oneCall, text } from "./events";

const view = (frames: Frame[], before = emptyView("ses_1")) => fold(before, frames);
const kinds = (blocks: readonly Block[]) => blocks.map((block) => block.kind);
const tool = (blocks: readonly Block[]) => blocks.find((block) => block.kind === "tool") as ToolBlock;
const said = (blocks: readonly Block[]) => blocks.flatMap((block) => (block.kind === "text" ? [block.text] : []));

describe("answers", () => {
  it("grow with their fragments and become what the fact says", () => {
    const log = new Log();
    const facts = oneCall(log);
    let now = view(facts.slice(0, 5));
    now = view([delta("I lo", 0), delta("ok", 4)], now);
    expect(said(now.blocks)).toEqual(["I look"]);
    now = view(facts.slice(5), now);
    expect(said(now.blocks)).toEqual(["I look."]);
    expect(kinds(now.blocks)).toEqual(["user", "text", "tool"]);
  });

  it("count characters as the server does, not as JavaScript does", () => {
    const now = view([delta("🐴 a", 0), delta("b", 3), delta("c", 4)]);
    expect(said(now.blocks)).toEqual(["🐴 abc"]);
  });

  it("are replaced by a fragment at offset 0, and wait where one is missing", () => {
    let now = view([delta("half", 0)]);
    now = view([delta("whole ", 0), delta("thing", 6), delta("lost", 99)], now);
    expect(said(now.blocks)).toEqual(["whole thing"]);
  });

  it("ignore fragments that come after their fact", () => {
    const now = view(oneCall(new Log()));
    expect(said(view([delta("x", 0)], now).blocks)).toEqual(["I look."]);
  });

  it("that a hook withheld are not seen, and neither is their beginning", () => {
    const log = new Log();
    let now = view([log.record("session_started", { cwd: "/", version: "1" }), delta("secret", 0)]);
    now = view([log.entry("assistant_message", { call: "msg_1", content: [text("secret")], stop_reason: "end", suppressed: true })], now);
    expect(now.blocks).toEqual([]);
  });

  it("that failed keep what was streamed, marked as cut", () => {
    const log = new Log();
    const facts = oneCall(log).slice(0, 5);
    const now = view([...facts, delta("Half an ans", 0), log.record("model_failed", { call: "msg_1", failure: { kind: "x", message: "overloaded" }, partial: [text("Half an ans")], retry_in: 2 })]);
    const cut = now.blocks.find((block) => block.kind === "text");
    expect(cut).toMatchObject({ text: "Half an ans", cut: true, writing: false });
    expect(now.run?.retryAt).toBe(Date.parse("2026-01-01T00:00:02.000Z"));
  });
});

describe("calls", () => {
  it("show their arguments while they are written", () => {
    const now = view([
      { type: "tool_input_started", message: "msg_1", block: 0, call: "c", name: "write" },
      { type: "tool_input_delta", message: "msg_1", block: 0, call: "c", offset: 0, text: '{"path": "a.py", "cont' },
    ]);
    expect(tool(now.blocks)).toMatchObject({ stage: "writing", name: "write", argumentsText: '{"path": "a.py", "cont' });
  });

  it("go from asked over running to done, with what they print meanwhile", () => {
    const log = new Log();
    let now = view(oneCall(log));
    now = view([log.record("question_asked", { id: "q", call: "call_1", question: { text: "May it?", kind: "permission", choices: ["yes", "no"] } })], now);
    expect(tool(now.blocks).stage).toBe("asking");
    expect(openQuestions(now).map((one) => one.id)).toEqual(["q"]);
    now = view([log.record("question_answered", { id: "q", outcome: "answered", answer: "session" }), log.record("tool_started", { call: "call_1", name: "bash" })], now);
    expect(openQuestions(now)).toEqual([]);
    now = view([{ type: "tool_output", call: "call_1", offset: 0, text: "one\n" }, { type: "tool_output", call: "call_1", offset: 4, text: "two" }], now);
    expect(tool(now.blocks)).toMatchObject({ stage: "running", output: "one\ntwo", answered: "allowed in this session" });
    now = view([log.entry("tool_result", { call: "call_1", name: "bash", content: [text("one\ntwo")], summary: "exit code 0" })], now);
    expect(tool(now.blocks)).toMatchObject({ stage: "done", output: "", result: { summary: "exit code 0" } });
  });

  it("that a run left open are not shown as running for ever", () => {
    const log = new Log();
    const now = view([...oneCall(log), log.record("tool_started", { call: "call_1", name: "bash" }), log.record("run_ended", { status: "interrupted" })]);
    expect(tool(now.blocks).stage).toBe("left");
    expect(now.run).toBeNull();
    expect(now.lastEnd).toBe("interrupted");
  });

  it("nest their children, live, with the questions these ask", () => {
    const log = new Log();
    const child = new Log();
    const event = (one: Frame): Frame => ({ type: "child_event", call: "call_1", child: "ses_2", event: one });
    const now = view([
      ...oneCall(log, "delegate"),
      log.record("child_started", { call: "call_1", child: "ses_2", agent: "reviewer", task: "Review" }),
      event(child.record("session_started", { cwd: "/", version: "1" })),
      event(delta("I rev", 0)),
      event(child.record("question_asked", { id: "q2", question: { text: "May I?", kind: "permission" } })),
    ]);
    const nested = tool(now.blocks).child;
    expect(nested).toMatchObject({ session: "ses_2", agent: "reviewer", status: "running" });
    expect(said(nested?.view?.blocks ?? [])).toEqual(["I rev"]);
    expect(openQuestions(now)).toMatchObject([{ id: "q2", session: "ses_2", agent: "reviewer" }]);
    const ended = view([log.record("child_ended", { call: "call_1", child: "ses_2", status: "completed", own: { usage: { input_tokens: 5, cost: 0.1 } } })], now);
    expect(openQuestions(ended)).toEqual([]);
    expect(ended.childrenUsage[0]).toMatchObject({ usage: { cost: 0.1 } });
  });

  it("count what another vendor's agent says that it has used, also in a call that goes on with it", () => {
    const log = new Log();
    const used = (call: string): Frame => log.record("child_used", { call, child: "ses_2", usage: { input_tokens: 5, cost: 0.5 } });
    const now = view([
      ...oneCall(log, "agent"),
      log.record("child_started", { call: "call_1", child: "ses_2", agent: "claude", task: "Review" }),
      used("call_1"),
      log.record("child_ended", { call: "call_1", child: "ses_2", status: "completed" }),
      used("call_2"),
    ]);
    expect(now.childrenUsage.reduce((sum, one) => sum + leastCost(one), 0)).toBe(1);
    const totals = tool(now.blocks).child?.totals ?? {};
    expect([totalTokens(totals.usage), leastCost(totals)]).toEqual([5, 0.5]);
  });
});

describe("the tree", () => {
  it("shows the path to the leaf, and after going back what follows from there", () => {
    const log = new Log();
    const first = log.entry("user_message", { content: [text("first")] });
    const old = log.entry("assistant_message", { call: "m1", content: [text("old way")], stop_reason: "end" });
    let now = view([first, old]);
    now = view([log.move(first.seq as number)], now);
    expect(said(visibleBlocks(now))).toEqual([]);
    now = view([log.entry("assistant_message", { call: "m2", content: [text("new way")], stop_reason: "end" })], now);
    expect(said(visibleBlocks(now))).toEqual(["new way"]);
    now = view([log.move(old.seq as number)], now);
    expect(said(visibleBlocks(now))).toEqual(["old way"]);
  });

  it("keeps names of places", () => {
    const log = new Log();
    const entry = log.entry("user_message", { content: [text("here")] });
    let now = view([entry, log.record("labelled", { entry: entry.seq, label: "start" })]);
    expect(now.labels.get(entry.seq as number)).toBe("start");
    expect(now.blocks[0]?.label).toBe("start");
    now = view([log.record("labelled", { entry: entry.seq, label: "" })], now);
    expect(now.labels.size).toBe(0);
  });
});

describe("a view", () => {
  it("is never changed in place", () => {
    const log = new Log();
    const facts = oneCall(log);
    const before = view(facts);
    const copy = structuredClone({ ...before });
    view([log.record("tool_started", { call: "call_1", name: "bash" }), delta("more", 0, "msg_2"), log.record("run_ended", { status: "completed" })], before);
    expect({ ...before }).toEqual(copy);
  });

  it("is the same however the facts were cut into batches", () => {
    const log = new Log();
    const facts = [...oneCall(log), log.record("tool_started", { call: "call_1", name: "bash" }), log.entry("tool_result", { call: "call_1", name: "bash" }), log.record("run_ended", { status: "completed" })];
    const byOne = facts.reduce((now, fact) => fold(now, [fact]), emptyView("ses_1"));
    expect(byOne).toEqual(view(facts));
  });

  it("knows when it has caught up, by a frame that is no fact", () => {
    const facts = oneCall(new Log());
    const now = view([...facts, { type: "caught_up", seq: facts.length }]);
    expect(now).toMatchObject({ caughtUp: true, seq: facts.length, gap: false });
  });

  it("takes each fact once", () => {
    const facts = oneCall(new Log());
    expect(view(facts, view(facts))).toEqual(view(facts));
  });

  it("knows the meters, the to-do list, and which requests were taken up", () => {
    const log = new Log();
    const now = view([...oneCall(log), log.entry("todo_updated", { items: [{ id: "1", text: "Test" }] }), log.record("session_renamed", { title: "A title", request: "req_9" })]);
    expect(now).toMatchObject({ context: 100, usage: { cost: 0.5 }, title: "A title", model: "vendor/one" });
    expect(now.todo).toHaveLength(1);
    expect(now.settled.has("req_9")).toBe(true);
  });

  it("keeps live values until they are removed", () => {
    let now = view([{ type: "live_value", name: "status:ext/a", value: { text: "on" } }]);
    expect(now.live.size).toBe(1);
    now = view([{ type: "live_value", name: "status:ext/a" }], now);
    expect(now.live.size).toBe(0);
  });

  it("keeps every block of a long session that did not change", () => {
    const log = new Log();
    const facts: Frame[] = [];
    for (let place = 0; place < 2500; place += 1) {
      facts.push(log.entry("user_message", { content: [text(`prompt ${place}`)] }));
      facts.push(log.entry("assistant_message", { call: `m${place}`, content: [text("answer")], stop_reason: "end" }));
    }
    const before = view(facts);
    const after = view([delta("live", 0, "m_last")], before);
    expect(visibleBlocks(after)).toHaveLength(5001);
    expect(before.blocks.every((block, place) => block === after.blocks[place])).toBe(true);
    expect(after.parents).toBe(before.parents);
  });
});

describe("a child that was joined late", () => {
  it("is read from its own log, and goes on from there", () => {
    const log = new Log();
    const child = new Log();
    const started = child.record("session_started", { cwd: "/", version: "1" });
    const asked = child.record("question_asked", { id: "q2", question: { text: "May I?" } });
    const event = (one: Frame): Frame => ({ type: "child_event", call: "call_1", child: "ses_2", event: one });
    let now = view([...oneCall(log, "delegate"), log.record("child_started", { call: "call_1", child: "ses_2" }), event(delta("Half", 0)), event(asked)]);
    expect(childrenToRead(now)).toEqual(["ses_2"]);
    now = withChild(now, fold(emptyView("ses_2"), [started, asked]));
    expect(childrenToRead(now)).toEqual([]);
    expect(openQuestions(now)).toHaveLength(1);
    now = view([event(delta(" more", 4))], now);
    expect(said(childIn(now, "ses_2")?.blocks ?? [])).toEqual(["Half more"]);
    now = view([event(child.record("question_answered", { id: "q2", outcome: "declined" }))], now);
    expect(openQuestions(now)).toEqual([]);
    expect(childIn(now, "ses_2")?.seq).toBe(3);
  });
});
