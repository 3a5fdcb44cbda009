/** Facts and live events, in their order, make a view into the next one. */

import { type Frame, type PlainBlock, type Totals, factNumber } from "../api/types";
import { Draft } from "./draft";
import { foldAnswer, foldDelta, foldModelFailure } from "./answer-items";
import { foldTools } from "./call-items";
import { shortTokens } from "../text/format";
import type { NoticeBlock, SessionView } from "./session-view";
import { TAKEN_BACK, emptyView } from "./session-view";

export function fold(view: SessionView, frames: readonly Frame[]): SessionView {
  if (!frames.length) return view;
  const draft = new Draft(view);
  for (const frame of frames) take(draft, frame);
  return draft.view;
}

/** A child's event, for the view that is nested in its parent's. */
export function foldChild(view: SessionView | null, session: string, event: Frame): SessionView {
  return fold(view ?? emptyView(session), [event]);
}

function take(draft: Draft, frame: Frame): void {
  const seq = factNumber(frame);
  if (seq) takeFact(draft, frame, seq);
  else takeLive(draft, frame);
}

function takeFact(draft: Draft, fact: Frame, seq: number): void {
  const view = draft.view;
  if (seq <= view.seq) return;
  if (seq !== view.seq + 1) view.gap = true;
  view.seq = seq;
  if (fact.parent !== undefined) draft.grow(seq, fact.parent);
  draft.settle(fact["request"] as string | undefined);
  if (!(foldTools(draft, fact, foldChild) || foldAnswer(draft, fact, seq) || foldModelFailure(draft, fact))) {
    takeRest(draft, fact, seq);
  }
}

function takeRest(draft: Draft, fact: Frame, seq: number): void {
  const view = draft.view;
  const time = fact.time ?? "";
  const base = { key: `fact:${seq}`, anchor: view.leaf, time };
  const notice = (level: NoticeBlock["level"], title: string, text: string): void =>
    draft.put({ ...base, kind: "notice", level, title, text });
  switch (fact.type) {
    case "session_started":
      view.cwd = fact["cwd"];
      view.driver = fact["driver"] ?? "agent";
      view.childOf = fact["child_of"] ?? "";
      view.forkedFrom = fact["forked_from"] ?? "";
      return;
    case "session_renamed":
      view.title = fact["title"];
      return;
    case "labelled": {
      const { entry, label } = fact as unknown as { entry: number; label: string };
      if (label) draft.labels().set(entry, label);
      else draft.labels().delete(entry);
      draft.change(
        (block) => block.anchor === entry && block.kind !== "receipt" && block.kind !== "notice",
        (block) => ({ ...block, label }),
      );
      return;
    }
    case "leaf_moved":
      draft.moveLeaf(fact["to"]);
      return;
    case "settings_changed":
      takeSettings(view, fact, notice);
      return;
    case "request_refused":
      if (fact["reason"] === TAKEN_BACK) return; // whoever did that knows
      draft.put({ ...base, kind: "notice", level: "warning", title: "Not done", text: fact["reason"], request: fact["request"] });
      return;
    case "run_started":
      view.run = {
        id: fact.run ?? "",
        startedAt: time,
        model: fact["model"],
        step: 0,
        waiting: "",
        calling: false,
        retryAt: 0,
      };
      view.model = fact["model"] || view.model;
      view.permissions = fact["permissions"] ?? view.permissions;
      view.modelFailure = "";
      return;
    case "user_message":
      if (fact["hidden"]) return;
      draft.put({
        ...base,
        kind: "user",
        seq,
        content: fact["content"] as PlainBlock[],
        source: fact["source"] ?? "prompt",
      });
      return;
    case "step_started":
      if (view.run) view.run = { ...view.run, step: fact["number"] };
      return;
    case "usage":
      takeUsage(view, fact);
      return;
    case "run_waiting":
      if (view.run) view.run = { ...view.run, waiting: fact["reason"], calling: false };
      return;
    case "run_resumed":
      if (view.run) view.run = { ...view.run, waiting: "" };
      return;
    case "run_ended":
      takeEnd(draft, fact, base);
      return;
    case "prompts_held":
    case "prompts_released":
      view.held = fact.type === "prompts_held";
      return;
    case "todo_updated":
      if ((fact["list"] ?? "main") === "main") view.todo = fact["items"];
      return;
    case "warned":
      return notice("warning", fact["about"] === "extension" ? "Extension" : "Warning", fact["text"]);
    case "permission_remembered": {
      takeRemembered(view, fact);
      const said = fact["effect"] === "revoked" ? "Forgotten" : "Remembered";
      return notice("quiet", said, `${fact["effect"]} ${fact["rule"]} (${fact["scope"]})`);
    }
    case "compacted": {
      const { tokens_before: before = 0, tokens_after: after = 0 } = fact;
      const sizes = before ? ` · ${shortTokens(before)} → ${shortTokens(after)} tokens` : "";
      const title = `Earlier messages summarised${sizes}`;
      draft.put({ ...base, kind: "summary", seq, title, text: fact["summary"], undoable: true });
      view.context = after || view.context;
      return;
    }
    case "compaction_undone":
      draft.change(
        (block) => block.kind === "summary" && block.seq === fact["compaction"],
        (block) => ({ ...block, undoable: false }) as typeof block,
      );
      return notice("quiet", "Summary undone", "The model is told the earlier messages again.");
    case "branch_collapsed":
      draft.put({ ...base, kind: "summary", seq, title: "A branch, summarised", text: fact["summary"], undoable: false });
      return;
    case "history_replaced":
      return notice("info", "History replaced", `The model is told ${fact["messages"].length} messages in place of the earlier ones.`);
    case "command_ran": {
      const said = `/${fact["name"]} ${fact["arguments"] ?? ""}`.trim();
      return notice(fact["failed"] ? "error" : "info", said, fact["text"] ?? "");
    }
    case "extension_entry": {
      const told = ((fact["told"] ?? []) as PlainBlock[]).map((one) => (one.type === "text" ? one.text : "")).join("\n");
      const data = fact["data"] === undefined ? "" : JSON.stringify(fact["data"], null, 1);
      return notice("info", `${fact["extension"]}: ${fact["name"]}`, told || data);
    }
    case "message_revised": {
      const text = (fact["content"] as PlainBlock[]).map((one) => (one.type === "text" ? one.text : "")).join("\n");
      draft.change(
        (block) => block.kind === "text" && block.seq === fact["message"],
        (block) => (block.kind === "text" ? { ...block, text } : block),
      );
      return;
    }
    case "source_cited":
      takeSource(draft, fact);
  }
}

function takeSettings(
  view: { model: string; reasoning: string; permissions: string },
  fact: Frame,
  notice: (level: NoticeBlock["level"], title: string, text: string) => void,
): void {
  const said: string[] = [];
  if (fact["model"] && fact["model"] !== view.model) said.push(`model ${fact["model"]}`);
  if (fact["reasoning"] && fact["reasoning"] !== view.reasoning) said.push(`reasoning ${fact["reasoning"]}`);
  if (fact["permissions"]) said.push(`permissions ${fact["permissions"]}`);
  view.model = fact["model"] || view.model;
  view.reasoning = fact["reasoning"] || view.reasoning;
  view.permissions = fact["permissions"] || view.permissions;
  if (said.length) notice("quiet", "Settings", said.join(", "));
}

/** A copy of a session has its facts, but not what was remembered for it alone. */
function takeRemembered(view: Written, fact: Frame): void {
  const { rule, effect, scope, where } = fact as unknown as { rule: string; effect: string; scope: string; where?: string };
  if (scope === "session" && where && where !== view.id) return;
  const others = view.remembered.filter((one) => one.rule !== rule || one.scope !== scope);
  view.remembered = effect === "revoked" ? others : [...others, { rule, effect, scope }];
}

type Written = { -readonly [K in keyof SessionView]: SessionView[K] };

function takeUsage(view: Written, fact: Frame): void {
  view.usage = fact["cumulative"] ?? view.usage;
  if (view.run) view.run = { ...view.run, calling: false };
  if ((fact["purpose"] ?? "step") !== "step") return;
  const { input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 } = fact["usage"];
  view.context = input_tokens + output_tokens + cache_read_tokens + cache_write_tokens || view.context;
}

function takeEnd(draft: Draft, fact: Frame, base: { key: string; anchor: number; time: string }): void {
  const view = draft.view;
  view.run = null;
  view.lastEnd = fact["status"];
  if (fact["status"] !== "failed") view.modelFailure = "";
  view.held = fact["status"] !== "completed";
  view.context = fact["context"] || view.context;
  view.questions = view.questions.filter((asked) => asked.askedBy === "extension");
  for (const message of view.unsettled.keys()) draft.settleMessage(message, new Set());
  draft.change(
    (block) => block.kind === "tool" && !["done", "failed", "left"].includes(block.stage),
    (block) => (block.kind === "tool" ? { ...block, stage: "left" } : block),
  );
  const said = view.blocks.at(-1);
  const isSaid = said?.kind === "notice" && said.level === "error" && said.text === fact["failure"]?.message;
  draft.put({
    ...base,
    kind: "receipt",
    status: fact["status"],
    reason: isSaid ? "" : (fact["reason"] ?? ""),
    failure: isSaid ? null : (fact["failure"] ?? null),
    own: (fact["own"] ?? {}) as Totals,
    children: (fact["children"] ?? {}) as Totals,
  });
}

function takeSource(draft: Draft, fact: Frame): void {
  const key = `sources:${fact["call"]}`;
  const before = draft.find(key, "sources");
  const source = { url: fact["url"] ?? "", title: fact["title"] ?? "" };
  draft.put({
    key,
    anchor: before?.anchor ?? draft.view.leaf,
    time: fact.time ?? "",
    kind: "sources",
    sources: [...(before?.sources ?? []), source],
  });
}

function takeLive(draft: Draft, frame: Frame): void {
  const view = draft.view;
  if (foldTools(draft, frame, foldChild) || foldDelta(draft, frame)) return;
  switch (frame.type) {
    case "caught_up":
      view.caughtUp = true;
      return;
    case "live_value":
      if (frame["value"] === undefined || frame["value"] === null) draft.live().delete(frame["name"]);
      else draft.live().set(frame["name"], frame["value"]);
      return;
    case "printed":
      view.printed += 1;
      draft.put({
        key: `printed:${view.printed}`,
        anchor: view.leaf,
        time: "",
        kind: "printed",
        level: frame["level"] ?? "plain",
        text: frame["text"],
        title: frame["title"] ?? "",
        color: frame["color"] ?? "",
        extension: frame["extension"] ?? "",
      });
      return;
    case "store_failed":
      view.storeFailed = frame["failure"]?.message ?? "the log cannot be written";
      return;
    case "stream_incomplete":
      view.incomplete = frame["reason"];
  }
}
