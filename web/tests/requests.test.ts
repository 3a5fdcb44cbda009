import { describe, expect, it } from "vitest";
import type { StreamEvent } from "../src/api/types";
import { fallbackModels, hasFallback } from "../src/state/fallback-models";
import { costOf, groupName, totalSpending } from "../src/text/format";
import { promptAttachments, promptText } from "../src/text/prompt";
import { apply } from "../src/transcript/item-builder";
import { TAKEN_BACK, emptyView, lateSteerId, visibleItems } from "../src/transcript/session-view";
import { Log, oneCall, text } from "./events";

const view = (events: StreamEvent[]) => apply(emptyView("ses_1"), events);

describe("a run that failed", () => {
  const started = (log: Log): StreamEvent[] => oneCall(log).slice(0, 5);
  const failure = { kind: "overloaded", message: "too busy" };

  it("has the kind of the model failure until the next run", () => {
    const log = new Log();
    const facts = [...started(log), log.record("model_failed", { call: "msg_1", failure }), log.record("run_ended", { status: "failed", failure })];
    expect(view(facts).modelFailure).toBe("overloaded");
    facts.push(log.record("run_started", { model: "vendor/two" }));
    expect(view(facts).modelFailure).toBe("");
  });

  it("has no model failure if a retry or fallback succeeded", () => {
    const log = new Log();
    const facts = [...started(log), log.record("model_failed", { call: "msg_1", failure, retry_in: 1 })];
    expect(view(facts).modelFailure).toBe("");
    facts.push(log.record("model_failed", { call: "msg_1", failure }), log.entry("assistant_message", { call: "msg_2", content: [text("Well.")] }));
    expect(view(facts).modelFailure).toBe("");
  });

  it("can continue with available models, other vendors' first", () => {
    const models = [
      { name: "one/big", ready: true },
      { name: "one/small", ready: true, default: true },
      { name: "two/big", ready: true },
      { name: "two/best", ready: true, default: true },
      { name: "three/no-key", ready: false },
    ];
    expect(fallbackModels(models, "one/big", "overloaded")).toEqual(["two/best", "one/small"]);
    expect(fallbackModels(models, "one/big", "authentication_failed")).toEqual(["two/best"]);
    expect([hasFallback("overloaded"), hasFallback("context_overflow"), hasFallback("")]).toEqual([true, false, false]);
  });
});

describe("remembered permissions", () => {
  const remembered = (log: Log, rule: string, effect: string, fields = {}): StreamEvent => log.record("permission_remembered", { rule, effect, scope: "session", where: "ses_1", ...fields });

  it("hold until they are revoked", () => {
    const log = new Log();
    const facts = [remembered(log, "bash(ls)", "allow"), remembered(log, "edit", "allow", { scope: "project", where: "/project" })];
    expect(view(facts).rememberedRules.map((one) => one.rule)).toEqual(["bash(ls)", "edit"]);
    facts.push(remembered(log, "bash(ls)", "revoked"));
    expect(view(facts).rememberedRules.map((one) => one.rule)).toEqual(["edit"]);
  });

  it("of the original session do not hold in a fork", () => {
    expect(view([remembered(new Log(), "bash(ls)", "allow", { where: "ses_0" })]).rememberedRules).toEqual([]);
  });
});

describe("a summary", () => {
  it("can be undone once", () => {
    const log = new Log();
    const facts = [...oneCall(log), log.entry("compacted", { summary: "All.", replaces: [3], keeps_from: 9 })];
    const undoable = (some: StreamEvent[]) => view(some).items.flatMap((item) => (item.kind === "summary" ? [!item.undone] : []));
    expect(undoable(facts)).toEqual([true]);
    facts.push(log.entry("compaction_undone", { compaction: facts.at(-1)?.seq }));
    expect(undoable(facts)).toEqual([false]);
  });
});

describe("spending", () => {
  it("includes children, and shows that a price is missing", () => {
    const group = { day: "2026-01-31", own: { calls: 2, usage: { input_tokens: 5 }, known_cost: 1 }, children: { calls: 1, usage: { output_tokens: 3 }, known_cost: 0.5, unpriced_calls: 1 } };
    const spent = totalSpending(group);
    expect([spent.calls, spent.usage?.input_tokens, spent.usage?.output_tokens]).toEqual([3, 5, 3]);
    expect(costOf(spent)).toEqual({ cost: 1.5, isComplete: false });
    expect(groupName(group, "day", "")).toBe("2026-01-31");
    expect(groupName({ session: "ses_1" }, "session", "A title")).toBe("A title");
  });
});

describe("a steer that came too late", () => {
  const shown = (events: StreamEvent[], late?: Set<string>) => visibleItems(view(events), late).flatMap((one) => (one.kind === "notice" ? [one.text] : []));

  it("is hidden once it was sent as a prompt or returned", () => {
    const log = new Log();
    const facts = [...oneCall(log), log.record("run_ended", { status: "completed" })];
    facts.push(log.record("request_refused", { request: "req_1", reason: "no run is open" }));
    expect(shown(facts)).toEqual(["no run is open"]);
    expect(shown(facts, new Set(["req_1"]))).toEqual([]);
    facts.push(log.entry("user_message", { request: lateSteerId("req_1"), content: [text("Mind the gap.")] }));
    expect(shown(facts)).toEqual([]);
  });

  it("is not one that a person withdrew", () => {
    expect(shown([new Log().record("request_refused", { request: "req_1", reason: TAKEN_BACK })])).toEqual([]);
  });
});

describe("a prompt that is withdrawn", () => {
  const picture = { type: "image" as const, media_type: "image/png", data: "" };

  it("consists of its text and its attachments", () => {
    const content = [text("Look at"), picture, text("--- list.txt, uploaded ---\noats\n"), text("these.")];
    expect(promptText(content)).toBe("Look at\nthese.");
    expect(promptAttachments(content)).toEqual([
      { name: "image/png", block: picture },
      { name: "list.txt", block: content[2] },
    ]);
  });
});
