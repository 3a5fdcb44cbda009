/** `apply`: facts and live events, in their order, make the next view of a session. */

import { type PlainBlock, type StreamEvent, factNumber } from "../api/types";
import { applyAnswer, applyDelta, applyModelFailure } from "./answer-items";
import { applyToCalls, newCall, withoutEnvelope } from "./call-items";
import { type CallItem, type ExtensionItem, type NoticeCode, type NoticeItem, type PrintedItem, type SummaryItem, plainTextOf } from "./items";
import { type SessionView, TAKEN_BACK, ViewDraft, emptyView } from "./session-view";

export function apply(view: SessionView, events: readonly StreamEvent[]): SessionView {
  if (!events.length) return view;
  const draft = new ViewDraft(view);
  for (const event of events) {
    const seq = factNumber(event);
    if (seq) applyFact(draft, event, seq);
    else applyLive(draft, event);
  }
  return draft.view;
}

/** An event of a child, for the view inside its parent's. */
function applyToChild(view: SessionView | null, session: string, event: StreamEvent): SessionView {
  return apply(view ?? emptyView(session), [event]);
}

function applyFact(draft: ViewDraft, fact: StreamEvent, seq: number): void {
  const view = draft.view;
  if (seq <= view.seq) return;
  if (seq !== view.seq + 1) view.hasGap = true;
  view.seq = seq;
  if (fact.parent !== undefined) draft.appendEntry(seq, fact.parent);
  draft.markHandled(fact["request"] as string | undefined);
  const isDone = applyToCalls(draft, fact, applyToChild) || applyAnswer(draft, fact) || applyModelFailure(draft, fact) || applyToRun(draft, fact);
  if (!isDone) applyToSession(draft, fact);
}

/** Runs, and what people say to them. */
function applyToRun(draft: ViewDraft, fact: StreamEvent): boolean {
  const view = draft.view;
  switch (fact.type) {
    case "run_started":
      view.run = { id: fact.run ?? "", startedAt: fact.time ?? "", model: fact["model"], step: 0, waiting: "", calling: false, retryAt: 0 };
      view.model = fact["model"] || view.model;
      view.permissions = fact["permissions"] ?? view.permissions;
      view.modelFailure = "";
      return true;
    case "user_message": {
      const { content, source = "prompt", request = "", hidden = false } = fact as unknown as { content: PlainBlock[]; source?: string; request?: string; hidden?: boolean };
      draft.put({ ...draft.base(fact), kind: "user", content, source, request, hidden, delivered: false });
      return true;
    }
    case "delivered": {
      const message = draft.find(`fact:${fact["message"]}`, "user");
      if (message) draft.put({ ...message, delivered: true });
      return true;
    }
    case "step_started":
      if (view.run) view.run = { ...view.run, step: fact["number"] };
      return true;
    case "usage":
      applyUsage(view, fact);
      return true;
    case "run_waiting":
      if (view.run) view.run = { ...view.run, waiting: fact["reason"], calling: false };
      return true;
    case "run_resumed":
      if (view.run) view.run = { ...view.run, waiting: "" };
      return true;
    case "run_ended":
      endRun(draft, fact);
      return true;
    case "prompts_held":
    case "prompts_released":
      view.promptsHeld = fact.type === "prompts_held";
      return true;
    default:
      return false;
  }
}

function applyUsage(view: ViewDraft["view"], fact: StreamEvent): void {
  view.usage = fact["cumulative"] ?? view.usage;
  if (view.run) view.run = { ...view.run, calling: false };
  if ((fact["purpose"] ?? "step") !== "step") return;
  const { input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 } = fact["usage"];
  view.context = input_tokens + output_tokens + cache_read_tokens + cache_write_tokens || view.context;
}

const FINISHED = new Set<CallItem["stage"]>(["done", "failed", "refused", "cancelled", "abandoned"]);

function endRun(draft: ViewDraft, fact: StreamEvent): void {
  const view = draft.view;
  const { status, reason = "", failure = null, own = {}, children = {} } = fact as any;
  view.run = null;
  view.lastStatus = status;
  if (status !== "failed") view.modelFailure = "";
  view.promptsHeld = status !== "completed";
  view.context = fact["context"] || view.context;
  for (const message of view.streaming.keys()) draft.endStreaming(message, new Set());
  draft.update((item) => {
    if (item.kind === "call" && !FINISHED.has(item.stage)) return { ...item, stage: "abandoned" };
    if (item.kind === "question" && item.state === "open" && item.asked.asked_by !== "extension") return { ...item, state: "withdrawn" };
    return item;
  });
  const last = view.items.at(-1);
  const isExplained = last?.kind === "notice" && last.level === "error" && last.text === failure?.message;
  draft.put({ ...draft.base(fact), kind: "run_end", status, reason, failure, own, children, isExplained });
}

/** What happens to the session beside its runs. */
function applyToSession(draft: ViewDraft, fact: StreamEvent): void {
  const view = draft.view;
  const base = draft.base(fact);
  const notice = (code: NoticeCode, level: NoticeItem["level"], text: string, details: NoticeItem["details"] = null): void =>
    draft.put({ ...base, kind: "notice", code, level, text, request: code === "request_refused" ? fact["request"] : "", details });
  const summary = (source: SummaryItem["source"], text: string, tokensBefore = 0, tokensAfter = 0): void =>
    draft.put({ ...base, kind: "summary", source, text, tokensBefore, tokensAfter, undone: false });
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
    case "labelled":
      return applyLabel(draft, fact["entry"], fact["label"]);
    case "leaf_moved":
      return draft.moveLeaf(fact["to"]);
    case "settings_changed": {
      const text = applySettings(view, fact);
      if (text) notice("settings", "info", text);
      return;
    }
    case "request_refused":
      if (fact["reason"] !== TAKEN_BACK) notice("request_refused", "warning", fact["reason"]);
      return;
    case "todo_updated": {
      const { items, list = "main" } = fact as any;
      draft.put({ ...base, kind: "todo_list", list, items });
      if (list === "main") view.todo = items;
      return;
    }
    case "warned":
      return notice("warned", "warning", fact["text"], { about: fact["about"] ?? "model" });
    case "permission_remembered": {
      applyRule(view, fact);
      const { effect, rule, scope } = fact as any;
      return notice("permission", "info", `${effect} ${rule} (${scope})`, { effect, rule, scope });
    }
    case "compacted":
      summary("compaction", fact["summary"], fact["tokens_before"], fact["tokens_after"]);
      view.context = fact["tokens_after"] || view.context;
      return;
    case "compaction_undone":
      draft.update((item) => (item.kind === "summary" && item.seq === fact["compaction"] ? { ...item, undone: true } : item));
      return notice("compaction_undone", "info", "The model receives the earlier messages again.", { compaction: fact["compaction"] });
    case "branch_collapsed":
      return summary("branch", fact["summary"]);
    case "history_replaced":
      return summary("history", `The model receives ${fact["messages"].length} messages instead of the earlier ones.`);
    case "command_ran": {
      const { name, arguments: typed = "", text = "", failed = false, extension = "" } = fact as any;
      draft.put({ ...base, kind: "extension", extension, name, command: `/${name} ${typed}`.trim(), data: null, text, failed });
      return;
    }
    case "extension_entry":
      return draft.put(extensionItem(base, fact));
    case "message_revised": {
      const text = plainTextOf(fact["content"]);
      draft.update((item) => (item.kind === "text" && item.seq === fact["message"] ? { ...item, text, revised: true } : item));
      return;
    }
    case "source_cited":
      return citeSource(draft, fact);
  }
}

function applyLabel(draft: ViewDraft, entry: number, label: string): void {
  if (label) draft.labels().set(entry, label);
  else draft.labels().delete(entry);
  draft.update((item) => (item.seq === entry ? { ...item, label } : item));
}

/** The settings that really changed, as text. */
function applySettings(view: ViewDraft["view"], fact: StreamEvent): string {
  const changes: string[] = [];
  const { model = "", reasoning = "", permissions = "" } = fact as { model?: string; reasoning?: string; permissions?: string };
  if (model && model !== view.model) changes.push(`model ${model}`);
  if (reasoning && reasoning !== view.reasoning) changes.push(`reasoning ${reasoning}`);
  if (permissions) changes.push(`permissions ${permissions}`);
  view.model = model || view.model;
  view.reasoning = reasoning || view.reasoning;
  view.permissions = permissions || view.permissions;
  return changes.join(", ");
}

/** A fork has the facts of its origin, but not the rules that were remembered for that session only. */
function applyRule(view: ViewDraft["view"], fact: StreamEvent): void {
  const { rule, effect, scope, where } = fact as unknown as { rule: string; effect: string; scope: string; where?: string };
  if (scope === "session" && where && where !== view.id) return;
  const others = view.rememberedRules.filter((other) => other.rule !== rule || other.scope !== scope);
  view.rememberedRules = effect === "revoked" ? others : [...others, { rule, effect, scope }];
}

/** A shell command that a person ran in the terminal is a call; all other entries stay what they are. */
function extensionItem(base: ReturnType<ViewDraft["base"]>, fact: StreamEvent): CallItem | ExtensionItem {
  const { extension, name, data = null, told = [] } = fact as unknown as { extension: string; name: string; data?: unknown; told?: PlainBlock[] };
  if (extension !== "tui" || name !== "shell" || !data) return { ...base, kind: "extension", extension, name, command: "", data, text: plainTextOf(told), failed: false };
  const { command = "", failed = false, seconds = 0 } = data as { command?: string; failed?: boolean; seconds?: number };
  return {
    ...newCall("", "!", ""),
    ...base,
    calledSeq: base.seq,
    toolKind: "execute",
    arguments: { command },
    stage: failed ? "failed" : "done",
    result: { seq: base.seq, content: told.slice(1), failed: failed ? "tool_failed" : null, details: null, summary: "", output: null, durationMs: Math.round(seconds * 1000), repeats: 0 },
  };
}

function citeSource(draft: ViewDraft, fact: StreamEvent): void {
  const message = fact["call"] as string;
  const key = `sources:${message}`;
  const before = draft.find(key, "sources") ?? { ...draft.base(fact), key, kind: "sources", message, sources: [] };
  draft.put({ ...before, sources: [...before.sources, { url: fact["url"] ?? "", title: fact["title"] ?? "" }] });
}

function applyLive(draft: ViewDraft, event: StreamEvent): void {
  const view = draft.view;
  if (applyToCalls(draft, event, applyToChild) || applyDelta(draft, event)) return;
  switch (event.type) {
    case "caught_up":
      view.caughtUp = true;
      return;
    case "live_value":
      if (event["value"] === undefined || event["value"] === null) draft.liveValues().delete(event["name"]);
      else draft.liveValues().set(event["name"], event["value"]);
      return;
    case "printed": {
      view.printedCount += 1;
      const printed = withoutEnvelope(event) as unknown as PrintedItem["printed"];
      draft.put({ ...draft.base(event), key: `printed:${view.printedCount}`, kind: "printed", printed });
      return;
    }
    case "store_failed":
      view.storeFailure = event["failure"]?.message ?? "The log cannot be written.";
      return;
    case "stream_incomplete":
      view.streamIncomplete = event["reason"];
  }
}
