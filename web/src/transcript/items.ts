/** The items of a transcript. The item builder makes them from events and never changes one in place. */

import type { BlobRef, Display, Failure, OpenQuestion, PlainBlock, RunStatus, TodoItem, Totals } from "../api/types";
import type { SessionView } from "./session-view";

interface ItemBase {
  /** Stays the same while the item grows: `fact:12`, `text:MSG:0`, `call:ID`. */
  key: string;
  /** The number of the fact it comes from; 0 while only live events describe it. */
  seq: number;
  /** The entry it belongs to: the item is on the path while that entry is. 0: always. */
  anchor: number;
  run: string;
  timeMs: number;
  label: string;
  hidden: boolean;
}

/** The common fields of an item that no fact describes. */
export const LIVE = { seq: 0, anchor: 0, run: "", timeMs: 0, label: "", hidden: false };

export interface UserItem extends ItemBase {
  kind: "user";
  content: PlainBlock[];
  source: string;
  request: string;
  /** A terminal agent has accepted the message. */
  delivered: boolean;
}

/** Text that arrives in fragments. */
export interface StreamedText {
  text: string;
  /** Its length in code points, which is how the server counts offsets; 0 once it is complete. */
  points: number;
}

/** A block of an answer. */
interface AnswerItem extends ItemBase, StreamedText {
  message: string;
  block: number;
  complete: boolean;
}
export interface TextItem extends AnswerItem {
  kind: "text";
  model: string;
  /** Why the model stopped before the end. */
  cut: "" | "length" | "refusal";
  /** Copied from an agent's terminal: neither Markdown nor proportional. */
  drawn: boolean;
  revised: boolean;
}
export interface ReasoningItem extends AnswerItem {
  kind: "reasoning";
}
export interface MediaItem extends ItemBase {
  kind: "media";
  message: string;
  block: number;
  content: PlainBlock;
}
export interface SourcesItem extends ItemBase {
  kind: "sources";
  message: string;
  sources: { url: string; title: string }[];
}

export type CallStage =
  | "writing"
  | "called"
  | "asking"
  | "running"
  | "deferred"
  | "done"
  | "failed"
  | "refused"
  | "cancelled"
  | "abandoned";

export interface CallResult {
  seq: number;
  content: PlainBlock[];
  failed: string | null;
  details: Record<string, unknown> | null;
  summary: string;
  output: BlobRef | null;
  durationMs: number;
  repeats: number;
}
export interface CallItem extends ItemBase {
  kind: "call";
  call: string;
  message: string;
  /** The number of the `tool_called` fact. */
  calledSeq: number;
  name: string;
  toolKind: string;
  display: Display | null;
  arguments: Record<string, unknown> | null;
  argumentsText: string;
  argumentsPoints: number;
  malformed: string;
  stage: CallStage;
  output: string;
  outputPoints: number;
  allowedBy: string;
  /** The id of the last question about this call. */
  question: string;
  /** The answer to that question, as the call shows it. */
  answerText: string;
  note: string;
  startedMs: number;
  children: readonly ChildItem[];
  result: CallResult | null;
}
export interface ChildItem extends ItemBase {
  kind: "child";
  session: string;
  agent: string;
  task: string;
  extension: string;
  status: RunStatus | "running";
  reason: string;
  totals: Totals | null;
  /** Its own transcript, as far as it is known here. */
  view: SessionView | null;
}
export interface QuestionItem extends ItemBase, OpenQuestion {
  kind: "question";
  id: string;
  agent: string;
  state: "open" | "answered" | "declined" | "withdrawn";
  answer: unknown;
  by: string;
  /** Who answered: `user:NAME` or `token:NAME`. */
  identity: string;
}
export interface TodoListItem extends ItemBase {
  kind: "todo_list";
  list: string;
  items: TodoItem[];
}
/** An entry of an extension, or a command of one that a person ran. */
export interface ExtensionItem extends ItemBase {
  kind: "extension";
  extension: string;
  name: string;
  /** The command line; empty for an entry. */
  command: string;
  data: unknown;
  text: string;
  failed: boolean;
}
export interface PrintedItem extends ItemBase {
  kind: "printed";
  printed: { text: string; level?: string; extension?: string; title?: string; color?: string };
}
export interface RunEndItem extends ItemBase {
  kind: "run_end";
  status: RunStatus;
  reason: string;
  failure: Failure | null;
  own: Totals;
  children: Totals;
  /** The notice above says the same. */
  isExplained: boolean;
}
export interface SummaryItem extends ItemBase {
  kind: "summary";
  source: "compaction" | "branch" | "history";
  text: string;
  tokensBefore: number;
  tokensAfter: number;
  undone: boolean;
}
export type NoticeCode =
  | "retry"
  | "fallback"
  | "model_failed"
  | "warned"
  | "request_refused"
  | "settings"
  | "permission"
  | "compaction_undone";
export interface NoticeItem extends ItemBase {
  kind: "notice";
  code: NoticeCode;
  level: "info" | "warning" | "error";
  text: string;
  request: string;
  details: Record<string, unknown> | null;
}

export type Item =
  | UserItem
  | TextItem
  | ReasoningItem
  | MediaItem
  | SourcesItem
  | CallItem
  | ChildItem
  | QuestionItem
  | TodoListItem
  | ExtensionItem
  | PrintedItem
  | RunEndItem
  | SummaryItem
  | NoticeItem;

/** The children that an item shows. */
export function childrenOf(item: Item): readonly ChildItem[] {
  if (item.kind === "call") return item.children;
  return item.kind === "child" ? [item] : [];
}

/** Whether the model failed in the middle of the answer. A terminal agent may write on after the fact. */
export function isCutOff(item: TextItem): boolean {
  return !item.complete && item.seq > 0 && !item.drawn;
}

export function plainTextOf(content: readonly { type: string }[]): string {
  return content.map((block) => (block.type === "text" ? (block as { text?: string }).text : "")).join("\n");
}

export function pointsIn(text: string): number {
  let points = text.length;
  for (let at = 0; at < text.length - 1; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit >= 0xd800 && unit <= 0xdbff) {
      const next = text.charCodeAt(at + 1);
      if (next >= 0xdc00 && next <= 0xdfff) {
        points -= 1;
        at += 1;
      }
    }
  }
  return points;
}

/** The text with a fragment at its offset; null if something before it is missing. What followed the offset is replaced. */
export function withFragment(before: StreamedText, offset: number, fragment: string): StreamedText | null {
  if (offset > before.points) return null;
  const points = offset + pointsIn(fragment);
  if (offset === before.points) return { text: before.text + fragment, points };
  return { text: firstPoints(before, offset) + fragment, points };
}

function firstPoints({ text, points }: StreamedText, count: number): string {
  if (text.length === points) return text.slice(0, count);
  return Array.from(text).slice(0, count).join("");
}
