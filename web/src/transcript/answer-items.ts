/** Items of the model's answers: fragments as they arrive, and the facts with the whole message. */

import type { ContentBlock, StreamEvent } from "../api/types";
import { newCall } from "./call-items";
import { type Item, type NoticeItem, type TextItem, LIVE, withFragment } from "./items";
import type { ViewDraft } from "./session-view";

const TEXT = { kind: "text" as const, model: "", cut: "" as const, drawn: false, revised: false };
const REASONING = { kind: "reasoning" as const };

export function applyDelta(draft: ViewDraft, event: StreamEvent): boolean {
  if (event.type !== "text_delta" && event.type !== "reasoning_delta") return false;
  const kind = event.type === "text_delta" ? "text" : "reasoning";
  const { message, block, offset, text } = event as unknown as { message: string; block: number; offset: number; text: string };
  const key = `${kind}:${message}:${block}`;
  const before = draft.find(key, kind);
  if (before?.seq) return true;
  const streamed = withFragment(before ?? { text: "", points: 0 }, offset, text);
  if (streamed === null) return true;
  const fresh = { ...LIVE, key, anchor: draft.view.leaf, message, block, complete: false, ...(kind === "text" ? TEXT : REASONING) };
  draft.putStreaming(message, { ...(before ?? fresh), ...streamed });
  return true;
}

export function applyAnswer(draft: ViewDraft, fact: StreamEvent): boolean {
  const view = draft.view;
  if (fact.type === "model_called") {
    if (view.run && (fact["purpose"] ?? "step") === "step") {
      view.run = { ...view.run, calling: true, retryAt: 0, model: fact["model"] };
    }
    return true;
  }
  if (fact.type !== "assistant_message") return false;
  const message = fact["call"] as string;
  const content = (fact["shown"] ?? fact["content"]) as ContentBlock[];
  const kept = new Set<string>();
  content.forEach((block, index) => {
    if (fact["suppressed"] && block.type !== "tool_call") return;
    const key = putBlock(draft, fact, block, index);
    if (key) kept.add(key);
  });
  draft.endStreaming(message, kept);
  moveSources(draft, `sources:${message}`, fact.seq ?? 0);
  if (view.run) view.run = { ...view.run, calling: false };
  view.modelFailure = "";
  return true;
}

/** The model cites its sources while it writes; they belong below the answer. */
function moveSources(draft: ViewDraft, key: string, anchor: number): void {
  const sources = draft.find(key, "sources");
  if (!sources) return;
  draft.remove(new Set([key]));
  draft.put({ ...sources, anchor });
}

/** The key of the block's item; empty if the block has none. */
function putBlock(draft: ViewDraft, fact: StreamEvent, content: ContentBlock, block: number): string {
  const message = fact["call"] as string;
  const key = content.type === "tool_call" ? `call:${content.id}` : `${itemKind(content.type)}:${message || fact.seq}:${block}`;
  const base = { ...draft.base(fact), key };
  switch (content.type) {
    case "text": {
      if (!content.text.trim()) return "";
      const stop = fact["stop_reason"];
      const cut = stop === "length" || stop === "refusal" ? stop : "";
      const drawn = draft.view.driver === "terminal";
      draft.put({ ...base, ...TEXT, message, block, text: content.text, points: 0, complete: true, model: fact["model"] ?? "", cut, drawn });
      return key;
    }
    case "reasoning":
      if (!content.text?.trim()) return "";
      draft.put({ ...base, ...REASONING, message, block, text: content.text, points: 0, complete: true });
      return key;
    case "tool_call": {
      const before = draft.find(key, "call") ?? newCall(content.id, content.name, message);
      const stage = before.stage === "writing" ? "called" : before.stage;
      draft.put({ ...before, ...base, name: content.name, stage, argumentsText: content.arguments });
      return key;
    }
    case "image":
    case "file":
      draft.put({ ...base, kind: "media", message, block, content });
      return key;
    default:
      return "";
  }
}

const itemKind = (type: string): string => (type === "image" || type === "file" ? "media" : type);

/** A model call without a message. What had arrived stays, as an incomplete text. */
export function applyModelFailure(draft: ViewDraft, fact: StreamEvent): boolean {
  if (fact.type !== "model_failed") return false;
  const view = draft.view;
  const message = fact["call"] as string;
  const base = draft.base(fact);
  draft.endStreaming(message, new Set());
  ((fact["partial"] ?? []) as ContentBlock[]).forEach((content, block) => {
    if ((content.type !== "text" && content.type !== "reasoning") || !content.text?.trim()) return;
    const key = `${content.type}:${message}:${block}`;
    draft.put({ ...base, ...(content.type === "text" ? TEXT : REASONING), key, message, block, text: content.text, points: 0, complete: false });
  });
  const retryIn = (fact["retry_in"] ?? null) as number | null;
  const fallback = (fact["rescue"] ?? "") as string;
  view.modelFailure = retryIn === null && !fallback ? fact["failure"].kind : "";
  if (view.run) view.run = { ...view.run, calling: false, retryAt: retryIn === null ? 0 : base.timeMs + retryIn * 1000 };
  draft.put({ ...base, kind: "notice", request: "", ...failureNotice(fact["failure"], fact["attempt"] ?? 1, retryIn, fallback) });
  return true;
}

function failureNotice(
  { kind, message }: { kind: string; message: string },
  attempt: number,
  retryIn: number | null,
  fallback: string,
): Pick<NoticeItem, "code" | "level" | "text" | "details"> {
  if (fallback) return { code: "fallback", level: "warning", text: `${message}; continuing with ${fallback}`, details: { model: fallback } };
  if (retryIn === null) return { code: "model_failed", level: "error", text: message, details: { kind } };
  const text = `${message}; trying again in ${Number(retryIn.toPrecision(6))} s`;
  return { code: "retry", level: "warning", text, details: { attempt, retry_in: retryIn } };
}

/** The items with what a terminal agent writes now: it continues its last message, or answers the last one it got. */
export function withLiveMessage(items: Item[], value: unknown): Item[] {
  const text = (value as { text?: string } | undefined)?.text;
  if (!text) return items;
  const index = items.findLastIndex((item) => item.kind === "user" || item.kind === "text");
  const last = items[index];
  if (last?.kind === "text") return items.with(index, { ...last, text, complete: false });
  const live: TextItem = { ...LIVE, ...TEXT, key: "live-message", message: "", block: 0, text, points: 0, complete: false, drawn: true };
  return [...items, live];
}
