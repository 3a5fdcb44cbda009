/** The events of the agentapi wire, in their order, make what is seen of its agent. */

import type { Frame } from "../api/types";
import type { AnswerBlock, UserBlock } from "./session-view";

export type Said = UserBlock | AnswerBlock;

export interface AgentProblem {
  key: string;
  text: string;
  level: "warning" | "error";
}

export interface AgentView {
  /** `seq` is the message's id and one: 0 is for what no server knows. */
  readonly blocks: readonly Said[];
  readonly status: "" | "stable" | "running";
  readonly agentType: string;
  readonly problems: readonly AgentProblem[];
  /** While all is told from the start: the messages that were told so far. The others are gone. */
  readonly told: ReadonlySet<number> | null;
}

export const NOTHING_SEEN: AgentView = { blocks: [], status: "", agentType: "", problems: [], told: new Set() };

/** A stream begins: it tells everything anew, and what is shown stays until it did. */
export function retold(view: AgentView): AgentView {
  return { ...view, told: new Set() };
}

export function foldAgent(view: AgentView, frames: readonly Frame[]): AgentView {
  return frames.reduce(take, view);
}

function take(view: AgentView, frame: Frame): AgentView {
  switch (frame.type) {
    case "message_update":
      return withMessage(view, frame);
    case "status_change": {
      const { told } = view;
      const blocks = told ? view.blocks.filter((block) => told.has(block.seq)) : view.blocks;
      const status = frame["status"] === "stable" ? "stable" : "running";
      return { ...view, blocks, status, agentType: frame["agent_type"] ?? "", told: null };
    }
    case "agent_error":
      return withProblem(view, frame);
    default:
      return view;
  }
}

function withMessage(view: AgentView, frame: Frame): AgentView {
  const seq = Number(frame["id"]) + 1;
  const told = view.told && new Set([...view.told, seq]);
  const at = view.blocks.findIndex((block) => block.seq >= seq);
  const before = view.blocks[at];
  const after = blockOf(frame, seq);
  if (before?.seq === seq && textOf(before) === textOf(after) && before.kind === after.kind) return { ...view, told };
  const blocks = [...view.blocks];
  blocks.splice(at < 0 ? blocks.length : at, before?.seq === seq ? 1 : 0, after);
  return { ...view, blocks, told };
}

function blockOf(frame: Frame, seq: number): Said {
  const text = (frame["message"] as string | undefined) ?? "";
  const base = { key: `message:${seq}`, anchor: 0, time: frame.time ?? "", seq };
  if (frame["role"] === "user") return { ...base, kind: "user", content: [{ type: "text", text }], source: "prompt" };
  return { ...base, kind: "text", message: base.key, text, points: 0, writing: false, drawn: true };
}

const CALLS = /^(?:\[Tool(?: Status)?: .*(?:\n|$))+/gm;

/** What an agent without a screen says is Markdown, and its calls are lines in it. */
export function spoken(block: Said): Said {
  if (block.kind === "user") return block;
  const text = block.text.replace(CALLS, (calls) => `\n\`\`\`\`text\n${calls.trimEnd()}\n\`\`\`\`\n\n`);
  return { ...block, text, drawn: false };
}

export function textOf(block: Said): string {
  return block.kind === "user" ? block.content.map((one) => (one.type === "text" ? one.text : "")).join("") : block.text;
}

function withProblem(view: AgentView, frame: Frame): AgentView {
  const text = (frame["message"] as string | undefined) ?? "The agent has a problem.";
  const key = `${frame.time ?? ""} ${text}`;
  if (view.problems.some((one) => one.key === key)) return view; // told again
  const level = frame["level"] === "warning" ? "warning" : "error";
  return { ...view, problems: [...view.problems, { key, text, level }] };
}
