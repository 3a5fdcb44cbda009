/** What the model says: fragments as they come, and the facts that hold the whole. */

import type { ContentBlock, Frame } from "../api/types";
import type { Draft } from "./draft";
import { newTool } from "./call-items";
import { grown } from "./growing";
import type { AnswerBlock } from "./session-view";

export function foldDelta(draft: Draft, frame: Frame): boolean {
  if (frame.type !== "text_delta" && frame.type !== "reasoning_delta") return false;
  const kind = frame.type === "text_delta" ? "text" : "reasoning";
  const message = frame["message"] as string;
  const key = `${message}/${frame["block"]}`;
  const before = draft.find(key, "text", "reasoning");
  if (before && before.seq) return true;
  const now = grown(before ?? { text: "", points: 0 }, frame["offset"], frame["text"]);
  if (now === null) return true;
  draft.putUnsettled(message, {
    key,
    anchor: before?.anchor ?? draft.view.leaf,
    time: before?.time ?? "",
    kind,
    seq: 0,
    message,
    ...now,
    writing: true,
  });
  return true;
}

export function foldAnswer(draft: Draft, fact: Frame, seq: number): boolean {
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
  content.forEach((block, place) => {
    const key = block.type === "tool_call" ? `tool:${block.id}` : `${message || `fact:${seq}`}/${place}`;
    kept.add(key);
    if (fact["suppressed"] && block.type !== "tool_call") kept.delete(key);
    else putPart(draft, block, key, message, seq, fact.time ?? "", fact["model"] ?? "");
  });
  draft.settleMessage(message, kept);
  if (view.run) view.run = { ...view.run, calling: false };
  view.modelFailure = "";
  return true;
}

function putPart(
  draft: Draft,
  block: ContentBlock,
  key: string,
  message: string,
  seq: number,
  time: string,
  model: string,
): void {
  if (block.type === "text" || block.type === "reasoning") {
    const text = block.text ?? "";
    if (!text.trim()) draft.remove(new Set([key]));
    else draft.put({ key, anchor: seq, time, kind: block.type, seq, message, text, points: 0, writing: false, model, drawn: draft.view.driver === "terminal" });
  } else if (block.type === "tool_call") {
    const before = draft.find(key, "tool");
    const stage = before && before.stage !== "writing" ? before.stage : "called";
    draft.put({
      ...(before ?? newTool(block.id, block.name, message)),
      anchor: seq,
      seq,
      time,
      name: block.name,
      stage,
      argumentsText: block.arguments,
    });
  } else if (block.type === "image" || block.type === "file") {
    draft.put({ key, anchor: seq, time, kind: "media", seq, content: block });
  }
}

/** A call of the model that brought no message: what had come of it stays to be read, marked as cut. */
export function foldModelFailure(draft: Draft, fact: Frame): boolean {
  if (fact.type !== "model_failed") return false;
  const view = draft.view;
  const message = fact["call"] as string;
  const anchor = view.leaf;
  const time = fact.time ?? "";
  draft.settleMessage(message, new Set());
  ((fact["partial"] ?? []) as ContentBlock[]).forEach((block, place) => {
    if ((block.type !== "text" && block.type !== "reasoning") || !block.text?.trim()) return;
    const partial: AnswerBlock = {
      key: `${message}/${place}`,
      anchor,
      time,
      kind: block.type,
      seq: 0,
      message,
      text: block.text,
      points: 0,
      writing: false,
      cut: true,
    };
    draft.put(partial);
  });
  const again = fact["retry_in"] as number | null | undefined;
  const rescue = fact["rescue"] ? ` ${fact["rescue"]} is asked instead.` : "";
  view.modelFailure = again == null && !rescue ? fact["failure"].kind : "";
  if (view.run) {
    const retryAt = again == null ? 0 : Date.parse(time) + again * 1000;
    view.run = { ...view.run, calling: false, retryAt };
  }
  draft.put({
    key: `fact:${fact.seq}`,
    anchor,
    time,
    kind: "notice",
    level: again == null && !rescue ? "error" : "warning",
    title: again == null ? "The model failed" : `The model failed, tried again (${fact["attempt"] ?? 1})`,
    text: fact["failure"].message + rescue,
  });
  return true;
}
