import { describe, expect, it } from "vitest";
import type { StreamEvent } from "../src/api/types";
import { knownCost, totalTokens } from "../src/text/format";
import { apply } from "../src/transcript/item-builder";
import { type CallItem, type Item, type TextItem, isCutOff } from "../src/transcript/items";
import { childrenToRead, emptyView, findChild, openQuestions, visibleItems, withChild } from "../src/transcript/session-view";
import { Log, delta, oneCall, text } from "./events";

const view = (events: StreamEvent[], before = emptyView("ses_1")) => apply(before, events);
const kinds = (items: readonly Item[]) => items.map((item) => item.kind);
const call = (items: readonly Item[]) => items.find((item) => item.kind === "call") as CallItem;
const texts = (items: readonly Item[]) => items.flatMap((item) => (item.kind === "text" ? [item.text] : []));

describe("answers", () => {
  it("grow with their fragments; the fact replaces them", () => {
    const log = new Log();
    const facts = oneCall(log);
    let now = view(facts.slice(0, 5));
    now = view([delta("I lo", 0), delta("ok", 4)], now);
    expect(texts(now.items)).toEqual(["I look"]);
    now = view(facts.slice(5), now);
    expect(texts(now.items)).toEqual(["I look."]);
    expect(kinds(now.items)).toEqual(["user", "text", "call"]);
  });

  it("count code points, as the server does", () => {
    const now = view([delta("🐴 a", 0), delta("b", 3), delta("c", 4)]);
    expect(texts(now.items)).toEqual(["🐴 abc"]);
  });

  it("are replaced by a fragment at offset 0, and wait for a missing one", () => {
    let now = view([delta("half", 0)]);
    now = view([delta("whole ", 0), delta("thing", 6), delta("lost", 99)], now);
    expect(texts(now.items)).toEqual(["whole thing"]);
  });

  it("ignore fragments after their fact", () => {
    const now = view(oneCall(new Log()));
    expect(texts(view([delta("x", 0)], now).items)).toEqual(["I look."]);
  });

  it("that a hook suppressed are removed, fragments included", () => {
    const log = new Log();
    let now = view([log.record("session_started", { cwd: "/", version: "1" }), delta("secret", 0)]);
    now = view([log.entry("assistant_message", { call: "msg_1", content: [text("secret")], stop_reason: "end", suppressed: true })], now);
    expect(now.items).toEqual([]);
  });

  it("that failed keep their fragments, marked as cut off", () => {
    const log = new Log();
    const facts = oneCall(log).slice(0, 5);
    const now = view([...facts, delta("Half an ans", 0), log.record("model_failed", { call: "msg_1", failure: { kind: "x", message: "overloaded" }, partial: [text("Half an ans")], retry_in: 2 })]);
    const cut = now.items.find((item) => item.kind === "text");
    expect(cut).toMatchObject({ text: "Half an ans", complete: false });
    expect(isCutOff(cut as TextItem)).toBe(true);
    expect(now.run?.retryAt).toBe(Date.parse("2026-01-01T00:00:02.000Z"));
  });
});

describe("calls", () => {
  it("show their arguments while they are written", () => {
    const now = view([
      { type: "tool_input_started", message: "msg_1", block: 0, call: "c", name: "write" },
      { type: "tool_input_delta", message: "msg_1", block: 0, call: "c", offset: 0, text: '{"path": "a.py", "cont' },
    ]);
    expect(call(now.items)).toMatchObject({ stage: "writing", name: "write", argumentsText: '{"path": "a.py", "cont' });
  });

  it("go from asking to running to done, with their output", () => {
    const log = new Log();
    let now = view(oneCall(log));
    now = view([log.record("question_asked", { id: "q", call: "call_1", question: { text: "May it?", kind: "permission", choices: ["yes", "no"] } })], now);
    expect(call(now.items).stage).toBe("asking");
    expect(openQuestions(now).map((question) => question.asked.id)).toEqual(["q"]);
    now = view([log.record("question_answered", { id: "q", outcome: "answered", answer: "session" }), log.record("tool_started", { call: "call_1", name: "bash" })], now);
    expect(openQuestions(now)).toEqual([]);
    now = view([{ type: "tool_output", call: "call_1", offset: 0, text: "one\n" }, { type: "tool_output", call: "call_1", offset: 4, text: "two" }], now);
    expect(call(now.items)).toMatchObject({ stage: "running", output: "one\ntwo", answerText: "allowed in this session" });
    now = view([log.entry("tool_result", { call: "call_1", name: "bash", content: [text("one\ntwo")], summary: "exit code 0" })], now);
    expect(call(now.items)).toMatchObject({ stage: "done", output: "", result: { summary: "exit code 0" } });
  });

  it("are abandoned when their run ends without a result", () => {
    const log = new Log();
    const now = view([...oneCall(log), log.record("tool_started", { call: "call_1", name: "bash" }), log.record("run_ended", { status: "interrupted" })]);
    expect(call(now.items).stage).toBe("abandoned");
    expect(now.run).toBeNull();
    expect(now.lastStatus).toBe("interrupted");
  });

  it("contain their children live, with their questions", () => {
    const log = new Log();
    const child = new Log();
    const event = (one: StreamEvent): StreamEvent => ({ type: "child_event", call: "call_1", child: "ses_2", event: one });
    const now = view([
      ...oneCall(log, "delegate"),
      log.record("child_started", { call: "call_1", child: "ses_2", agent: "reviewer", task: "Review" }),
      event(child.record("session_started", { cwd: "/", version: "1" })),
      event(delta("I rev", 0)),
      event(child.record("question_asked", { id: "q2", question: { text: "May I?", kind: "permission" } })),
    ]);
    const nested = call(now.items).children[0];
    expect(nested).toMatchObject({ session: "ses_2", agent: "reviewer", status: "running" });
    expect(texts(nested?.view?.items ?? [])).toEqual(["I rev"]);
    expect(openQuestions(now)).toMatchObject([{ asked: { id: "q2" }, session: "ses_2", agent: "reviewer" }]);
    const ended = view([log.record("child_ended", { call: "call_1", child: "ses_2", status: "completed", own: { usage: { input_tokens: 5, cost: 0.1 } } })], now);
    expect(openQuestions(ended)).toEqual([]);
    expect(ended.childrenUsage[0]).toMatchObject({ usage: { cost: 0.1 } });
  });

  it("count the usage of another vendor's agent, also in a later call to it", () => {
    const log = new Log();
    const used = (call: string): StreamEvent => log.record("child_used", { call, child: "ses_2", usage: { input_tokens: 5, cost: 0.5 } });
    const now = view([
      ...oneCall(log, "agent"),
      log.record("child_started", { call: "call_1", child: "ses_2", agent: "claude", task: "Review" }),
      used("call_1"),
      log.record("child_ended", { call: "call_1", child: "ses_2", status: "completed" }),
      used("call_2"),
    ]);
    expect(now.childrenUsage.reduce((sum, one) => sum + knownCost(one), 0)).toBe(1);
    const totals = call(now.items).children[0]?.totals ?? {};
    expect([totalTokens(totals.usage), knownCost(totals)]).toEqual([5, 0.5]);
  });
});

describe("the tree", () => {
  it("shows the path to the leaf, also after a move", () => {
    const log = new Log();
    const first = log.entry("user_message", { content: [text("first")] });
    const old = log.entry("assistant_message", { call: "m1", content: [text("old way")], stop_reason: "end" });
    let now = view([first, old]);
    now = view([log.move(first.seq as number)], now);
    expect(texts(visibleItems(now))).toEqual([]);
    now = view([log.entry("assistant_message", { call: "m2", content: [text("new way")], stop_reason: "end" })], now);
    expect(texts(visibleItems(now))).toEqual(["new way"]);
    now = view([log.move(old.seq as number)], now);
    expect(texts(visibleItems(now))).toEqual(["old way"]);
  });

  it("keeps labels", () => {
    const log = new Log();
    const entry = log.entry("user_message", { content: [text("here")] });
    let now = view([entry, log.record("labelled", { entry: entry.seq, label: "start" })]);
    expect(now.labels.get(entry.seq as number)).toBe("start");
    expect(now.items[0]?.label).toBe("start");
    now = view([log.record("labelled", { entry: entry.seq, label: "" })], now);
    expect(now.labels.size).toBe(0);
  });
});

describe("a view", () => {
  it("is immutable", () => {
    const log = new Log();
    const facts = oneCall(log);
    const before = view(facts);
    const copy = structuredClone({ ...before });
    view([log.record("tool_started", { call: "call_1", name: "bash" }), delta("more", 0, "msg_2"), log.record("run_ended", { status: "completed" })], before);
    expect({ ...before }).toEqual(copy);
  });

  it("does not depend on how facts are batched", () => {
    const log = new Log();
    const facts = [...oneCall(log), log.record("tool_started", { call: "call_1", name: "bash" }), log.entry("tool_result", { call: "call_1", name: "bash" }), log.record("run_ended", { status: "completed" })];
    const byOne = facts.reduce((now, fact) => apply(now, [fact]), emptyView("ses_1"));
    expect(byOne).toEqual(view(facts));
  });

  it("has caught up after an event that is no fact", () => {
    const facts = oneCall(new Log());
    const now = view([...facts, { type: "caught_up", seq: facts.length }]);
    expect(now).toMatchObject({ caughtUp: true, seq: facts.length, hasGap: false });
  });

  it("applies each fact once", () => {
    const facts = oneCall(new Log());
    expect(view(facts, view(facts))).toEqual(view(facts));
  });

  it("has the usage, the to-do list and the handled requests", () => {
    const log = new Log();
    const now = view([...oneCall(log), log.entry("todo_updated", { items: [{ id: "1", text: "Test" }] }), log.record("session_renamed", { title: "A title", request: "req_9" })]);
    expect(now).toMatchObject({ context: 100, usage: { cost: 0.5 }, title: "A title", model: "vendor/one" });
    expect(now.todo).toHaveLength(1);
    expect(now.handledRequests.has("req_9")).toBe(true);
  });

  it("keeps live values until they are removed", () => {
    let now = view([{ type: "live_value", name: "status:ext/a", value: { text: "on" } }]);
    expect(now.liveValues.size).toBe(1);
    now = view([{ type: "live_value", name: "status:ext/a" }], now);
    expect(now.liveValues.size).toBe(0);
  });

  it("keeps the unchanged items of a long session", () => {
    const log = new Log();
    const facts: StreamEvent[] = [];
    for (let place = 0; place < 2500; place += 1) {
      facts.push(log.entry("user_message", { content: [text(`prompt ${place}`)] }));
      facts.push(log.entry("assistant_message", { call: `m${place}`, content: [text("answer")], stop_reason: "end" }));
    }
    const before = view(facts);
    const after = view([delta("live", 0, "m_last")], before);
    expect(visibleItems(after)).toHaveLength(5001);
    expect(before.items.every((item, index) => item === after.items[index])).toBe(true);
    expect(after.parents).toBe(before.parents);
  });
});

describe("a child that was joined late", () => {
  it("is read from its own log and continues live", () => {
    const log = new Log();
    const child = new Log();
    const started = child.record("session_started", { cwd: "/", version: "1" });
    const asked = child.record("question_asked", { id: "q2", question: { text: "May I?" } });
    const event = (one: StreamEvent): StreamEvent => ({ type: "child_event", call: "call_1", child: "ses_2", event: one });
    let now = view([...oneCall(log, "delegate"), log.record("child_started", { call: "call_1", child: "ses_2" }), event(delta("Half", 0)), event(asked)]);
    expect(childrenToRead(now)).toEqual(["ses_2"]);
    now = withChild(now, apply(emptyView("ses_2"), [started, asked]));
    expect(childrenToRead(now)).toEqual([]);
    expect(openQuestions(now)).toHaveLength(1);
    now = view([event(delta(" more", 4))], now);
    expect(texts(findChild(now, "ses_2")?.items ?? [])).toEqual(["Half more"]);
    now = view([event(child.record("question_answered", { id: "q2", outcome: "declined" }))], now);
    expect(openQuestions(now)).toEqual([]);
    expect(findChild(now, "ses_2")?.seq).toBe(3);
  });
});
