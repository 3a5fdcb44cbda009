/** The state of an agent behind an agentapi server, made from the events of its stream. */

import type { StreamEvent } from "../api/types";
import { type TextItem, type UserItem, LIVE, plainTextOf } from "./items";

export type AgentItem = UserItem | TextItem;

export interface AgentProblem {
  key: string;
  text: string;
  level: "warning" | "error";
}

export interface AgentView {
  /** `seq` is the message's id plus one: 0 is for messages that the server does not have yet. */
  readonly items: readonly AgentItem[];
  readonly status: "" | "stable" | "running";
  readonly agentType: string;
  readonly problems: readonly AgentProblem[];
  /** While a stream sends everything from the start: the messages so far. All others are gone. */
  readonly received: ReadonlySet<number> | null;
}

export const EMPTY_AGENT: AgentView = { items: [], status: "", agentType: "", problems: [], received: new Set() };

/** A new stream starts with the first message; until it has caught up, the old items stay visible. */
export function restarted(view: AgentView): AgentView {
  return { ...view, received: new Set() };
}

export function applyToAgent(view: AgentView, events: readonly StreamEvent[]): AgentView {
  return events.reduce(applyEvent, view);
}

function applyEvent(view: AgentView, event: StreamEvent): AgentView {
  switch (event.type) {
    case "message_update":
      return withMessage(view, event);
    case "status_change": {
      const { received } = view;
      const items = received ? view.items.filter((item) => received.has(item.seq)) : view.items;
      const status = event["status"] === "stable" ? "stable" : "running";
      return { ...view, items, status, agentType: event["agent_type"] ?? "", received: null };
    }
    case "agent_error":
      return withProblem(view, event);
    default:
      return view;
  }
}

function withMessage(view: AgentView, event: StreamEvent): AgentView {
  const seq = Number(event["id"]) + 1;
  const received = view.received && new Set([...view.received, seq]);
  const index = view.items.findIndex((item) => item.seq >= seq);
  const before = view.items[index];
  const after = itemFrom(event, seq);
  if (before?.seq === seq && textOf(before) === textOf(after) && before.kind === after.kind) return { ...view, received };
  const items = [...view.items];
  items.splice(index < 0 ? items.length : index, before?.seq === seq ? 1 : 0, after);
  return { ...view, items, received };
}

function itemFrom(event: StreamEvent, seq: number): AgentItem {
  const text = (event["message"] as string | undefined) ?? "";
  const base = { ...LIVE, key: `message:${seq}`, seq, timeMs: Date.parse(event.time ?? "") || 0 };
  if (event["role"] === "user") return userItem(base, text, "prompt");
  return { ...base, kind: "text", message: base.key, block: 0, text, points: 0, complete: true, model: "", cut: "", drawn: true, revised: false };
}

export function userItem(base: typeof LIVE & { key: string }, text: string, source: string): UserItem {
  return { ...base, kind: "user", content: [{ type: "text", text }], source, request: "", delivered: false };
}

const CALLS = /^(?:\[Tool(?: Status)?: .*(?:\n|$))+/gm;

/** An agent without a screen answers in Markdown; its calls are lines in it. */
export function asMarkdown(item: AgentItem): AgentItem {
  if (item.kind === "user") return item;
  const text = item.text.replace(CALLS, (calls) => `\n\`\`\`\`text\n${calls.trimEnd()}\n\`\`\`\`\n\n`);
  return { ...item, text, drawn: false };
}

export function textOf(item: AgentItem): string {
  return item.kind === "user" ? plainTextOf(item.content) : item.text;
}

function withProblem(view: AgentView, event: StreamEvent): AgentView {
  const text = (event["message"] as string | undefined) ?? "The agent reported an error.";
  const key = `${event.time ?? ""} ${text}`;
  if (view.problems.some((problem) => problem.key === key)) return view; // sent again
  const level = event["level"] === "warning" ? "warning" : "error";
  return { ...view, problems: [...view.problems, { key, text, level }] };
}
