import { describe, expect, it } from "vitest";
import { fold } from "../src/transcript/item-builder";
import { attachedParts, typedText } from "../src/text/parts-of-prompt";
import { canBeRescued, rescuers } from "../src/state/fallback-models";
import { costOf, groupName, spentTogether } from "../src/text/spending";
import { TAKEN_BACK, asPrompt, emptyView, visibleBlocks } from "../src/transcript/session-view";
import type { Frame } from "../src/api/types";
import { Log, oneCall, text } from "./events";

const view = (frames: Frame[]) => fold(emptyView("ses_1"), frames);

describe("a run that failed", () => {
  const started = (log: Log): Frame[] => oneCall(log).slice(0, 5);
  const failure = { kind: "overloaded", message: "too busy" };

  it("tells the kind of the model's failure until something goes on", () => {
    const log = new Log();
    const facts = [...started(log), log.record("model_failed", { call: "msg_1", failure }), log.record("run_ended", { status: "failed", failure })];
    expect(view(facts).modelFailure).toBe("overloaded");
    facts.push(log.record("run_started", { model: "vendor/two" }));
    expect(view(facts).modelFailure).toBe("");
  });

  it("is not the model's where that was asked again or answered", () => {
    const log = new Log();
    const facts = [...started(log), log.record("model_failed", { call: "msg_1", failure, retry_in: 1 })];
    expect(view(facts).modelFailure).toBe("");
    facts.push(log.record("model_failed", { call: "msg_1", failure }), log.entry("assistant_message", { call: "msg_2", content: [text("Well.")] }));
    expect(view(facts).modelFailure).toBe("");
  });

  it("is gone on with by models that can answer, others' first", () => {
    const models = [
      { name: "one/big", ready: true },
      { name: "one/small", ready: true, default: true },
      { name: "two/big", ready: true },
      { name: "two/best", ready: true, default: true },
      { name: "three/no-key", ready: false },
    ];
    expect(rescuers(models, "one/big", "overloaded")).toEqual(["two/best", "one/small"]);
    expect(rescuers(models, "one/big", "authentication_failed")).toEqual(["two/best"]);
    expect([canBeRescued("overloaded"), canBeRescued("context_overflow"), canBeRescued("")]).toEqual([true, false, false]);
  });
});

describe("remembered permissions", () => {
  const remembered = (log: Log, rule: string, effect: string, fields = {}): Frame => log.record("permission_remembered", { rule, effect, scope: "session", where: "ses_1", ...fields });

  it("are there until they are revoked", () => {
    const log = new Log();
    const facts = [remembered(log, "bash(ls)", "allow"), remembered(log, "edit", "allow", { scope: "project", where: "/project" })];
    expect(view(facts).remembered.map((one) => one.rule)).toEqual(["bash(ls)", "edit"]);
    facts.push(remembered(log, "bash(ls)", "revoked"));
    expect(view(facts).remembered.map((one) => one.rule)).toEqual(["edit"]);
  });

  it("of the session that this one is a copy of do not hold", () => {
    expect(view([remembered(new Log(), "bash(ls)", "allow", { where: "ses_0" })]).remembered).toEqual([]);
  });
});

describe("a summary", () => {
  it("can be undone once", () => {
    const log = new Log();
    const facts = [...oneCall(log), log.entry("compacted", { summary: "All.", replaces: [3], keeps_from: 9 })];
    const undoable = (some: Frame[]) => view(some).blocks.flatMap((block) => (block.kind === "summary" ? [block.undoable] : []));
    expect(undoable(facts)).toEqual([true]);
    facts.push(log.entry("compaction_undone", { compaction: facts.at(-1)?.seq }));
    expect(undoable(facts)).toEqual([false]);
  });
});

describe("what was spent", () => {
  it("is a group's own and its children's, and says where a price is missing", () => {
    const group = { day: "2026-01-31", own: { calls: 2, usage: { input_tokens: 5 }, known_cost: 1 }, children: { calls: 1, usage: { output_tokens: 3 }, known_cost: 0.5, unpriced_calls: 1 } };
    const spent = spentTogether(group);
    expect([spent.calls, spent.usage?.input_tokens, spent.usage?.output_tokens]).toEqual([3, 5, 3]);
    expect(costOf(spent)).toEqual({ cost: 1.5, isWhole: false });
    expect(groupName(group, "day", "")).toBe("2026-01-31");
    expect(groupName({ session: "ses_1" }, "session", "A title")).toBe("A title");
  });
});

describe("a steer that came too late", () => {
  const shown = (frames: Frame[], late?: Set<string>) => visibleBlocks(view(frames), late).flatMap((one) => (one.kind === "notice" ? [one.text] : []));

  it("is no news once it was said as a prompt, or given back", () => {
    const log = new Log();
    const facts = [...oneCall(log), log.record("run_ended", { status: "completed" })];
    facts.push(log.record("request_refused", { request: "req_1", reason: "no run is open" }));
    expect(shown(facts)).toEqual(["no run is open"]);
    expect(shown(facts, new Set(["req_1"]))).toEqual([]);
    facts.push(log.entry("user_message", { request: asPrompt("req_1"), content: [text("Mind the gap.")] }));
    expect(shown(facts)).toEqual([]);
  });

  it("is none that somebody took back, which is not told either", () => {
    expect(shown([new Log().record("request_refused", { request: "req_1", reason: TAKEN_BACK })])).toEqual([]);
  });
});

describe("a prompt that is taken back", () => {
  const picture = { type: "image" as const, media_type: "image/png", data: "" };

  it("is what was typed, and what was attached", () => {
    const content = [text("Look at"), picture, text("--- list.txt, uploaded ---\noats\n"), text("these.")];
    expect(typedText(content)).toBe("Look at\nthese.");
    expect(attachedParts(content)).toEqual([
      { name: "image/png", block: picture },
      { name: "list.txt", block: content[2] },
    ]);
  });
});
