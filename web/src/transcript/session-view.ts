/** What is seen of a session: made from facts and live events by `fold`, and never changed in place. */

import type {
  BlobRef,
  Display,
  Failure,
  PlainBlock,
  Question,
  RunStatus,
  TodoItem,
  Totals,
  Usage,
} from "../api/types";

interface InTranscript {
  key: string;
  /** The entry that it belongs to: it is seen while that is on the path to the leaf. 0 is always seen. */
  anchor: number;
  time: string;
  label?: string;
}

export interface UserBlock extends InTranscript {
  kind: "user";
  seq: number;
  content: PlainBlock[];
  source: string;
}
export interface AnswerBlock extends InTranscript {
  kind: "text" | "reasoning";
  /** 0 while it is being written. */
  seq: number;
  message: string;
  text: string;
  /** Its length as offsets count it, while it is being written. */
  points: number;
  writing: boolean;
  /** As an agent drew it on its terminal: neither Markdown nor proportional. */
  drawn?: boolean;
  cut?: boolean;
  model?: string;
}
export interface MediaBlock extends InTranscript {
  kind: "media";
  seq: number;
  content: PlainBlock;
}
export type Stage = "writing" | "called" | "asking" | "running" | "deferred" | "done" | "failed" | "left";

export interface ChildView {
  session: string;
  agent: string;
  task: string;
  status: RunStatus | "running";
  reason: string;
  totals: Totals | null;
  view: SessionView | null;
}
export interface ToolResultView {
  content: PlainBlock[];
  failed: string | null;
  details: Record<string, unknown> | null;
  /** The number of its fact. */
  seq: number;
  summary: string;
  output: BlobRef | null;
  duration: number;
  repeats: number;
}
export interface ToolBlock extends InTranscript {
  kind: "tool";
  seq: number;
  message: string;
  call: string;
  /** The number of the fact that the call was made. */
  calledSeq: number;
  name: string;
  about: string;
  stage: Stage;
  argumentsText: string;
  argumentsPoints: number;
  arguments: Record<string, unknown> | null;
  malformed: string;
  display: Display | null;
  output: string;
  outputPoints: number;
  startedAt: string;
  allowedBy: string;
  answered: string;
  note: string;
  child: ChildView | null;
  result: ToolResultView | null;
}
export interface ChildBlock extends InTranscript {
  kind: "child";
  extension: string;
  child: ChildView;
}
export interface NoticeBlock extends InTranscript {
  kind: "notice";
  level: "quiet" | "info" | "warning" | "error";
  title: string;
  text: string;
  /** The one that was refused. */
  request?: string;
}
export interface SummaryBlock extends InTranscript {
  kind: "summary";
  seq: number;
  title: string;
  text: string;
  undoable: boolean;
}
export interface PrintedBlock extends InTranscript {
  kind: "printed";
  level: string;
  text: string;
  title: string;
  color: string;
  extension: string;
}
export interface ReceiptBlock extends InTranscript {
  kind: "receipt";
  status: RunStatus;
  reason: string;
  failure: Failure | null;
  own: Totals;
  children: Totals;
}
export interface SourcesBlock extends InTranscript {
  kind: "sources";
  sources: { url: string; title: string }[];
}
export type Block =
  | UserBlock
  | AnswerBlock
  | MediaBlock
  | ToolBlock
  | ChildBlock
  | NoticeBlock
  | SummaryBlock
  | PrintedBlock
  | ReceiptBlock
  | SourcesBlock;

export interface RunView {
  id: string;
  startedAt: string;
  model: string;
  step: number;
  waiting: "" | "question" | "pending" | "paused";
  calling: boolean;
  retryAt: number;
}
export interface AskedView {
  session: string;
  id: string;
  question: Question;
  call: string;
  askedBy: string;
  agent: string;
}
/** A rule that a person's answer has left behind, and how far it holds. */
export interface Remembered {
  rule: string;
  effect: string;
  scope: string;
}
export interface SessionView {
  id: string;
  seq: number;
  /** A fact was missing before the first one that was seen: only of children that were joined late. */
  gap: boolean;
  caughtUp: boolean;
  incomplete: string;
  storeFailed: string;
  cwd: string;
  /** Who works in it: `agent` is our own, `terminal` one that is driven through its terminal, the others speak a protocol. */
  driver: string;
  title: string;
  childOf: string;
  forkedFrom: string;
  leaf: number;
  parents: ReadonlyMap<number, number>;
  path: ReadonlySet<number>;
  labels: ReadonlyMap<number, string>;
  blocks: readonly Block[];
  /** Where the block with a key stands in `blocks`. */
  places: ReadonlyMap<string, number>;
  /** Keys of blocks that stand for fragments, by message: the fact that holds the whole replaces them. */
  unsettled: ReadonlyMap<string, readonly string[]>;
  run: RunView | null;
  lastEnd: RunStatus | "";
  /** The kind of the model's failure with which the last run has ended. */
  modelFailure: string;
  remembered: readonly Remembered[];
  /** Prompts wait until somebody releases them. */
  held: boolean;
  questions: readonly AskedView[];
  todo: readonly TodoItem[];
  model: string;
  reasoning: string;
  permissions: string;
  usage: Usage;
  childrenUsage: Totals[];
  context: number;
  live: ReadonlyMap<string, unknown>;
  /** Requests that facts have answered. */
  settled: ReadonlySet<string>;
  printed: number;
}

export function emptyView(id: string): SessionView {
  return {
    id,
    seq: 0,
    gap: false,
    caughtUp: false,
    incomplete: "",
    storeFailed: "",
    cwd: "",
    driver: "agent",
    title: "",
    childOf: "",
    forkedFrom: "",
    leaf: 0,
    parents: new Map(),
    path: new Set(),
    labels: new Map(),
    blocks: [],
    places: new Map(),
    unsettled: new Map(),
    run: null,
    lastEnd: "",
    modelFailure: "",
    remembered: [],
    held: false,
    questions: [],
    todo: [],
    model: "",
    reasoning: "",
    permissions: "",
    usage: { cost: 0 },
    childrenUsage: [],
    context: 0,
    live: new Map(),
    settled: new Set(),
    printed: 0,
  };
}

/** The blocks on the path to the leaf. That a steer came too late is no news once it was said as a prompt. */
export function visibleBlocks(view: SessionView, late: ReadonlySet<string> = new Set()): Block[] {
  const isNoNews = (request: string): boolean => late.has(request) || view.settled.has(asPrompt(request));
  return view.blocks.filter((block) => (block.anchor === 0 || view.path.has(block.anchor)) && !(block.kind === "notice" && block.request && isNoNews(block.request)));
}

/** Why a request was refused that somebody took back. */
export const TAKEN_BACK = "the prompt was taken back before its turn";

/** The id of the prompt that a steer becomes when the run has ended: the same from whatever page it is said. */
export const asPrompt = (steer: string): string => `${steer}.late`;

/** The open questions of the session and of the children that are seen working in it. */
export function openQuestions(view: SessionView): AskedView[] {
  const found = [...view.questions];
  for (const block of view.blocks) {
    const child = block.kind === "tool" || block.kind === "child" ? block.child : null;
    if (child?.view && child.status === "running") {
      found.push(...openQuestions(child.view).map((asked) => ({ ...asked, agent: asked.agent || child.agent || "subagent" })));
    }
  }
  return found;
}

/** Whether a child was seen from its first fact on. */
export function isWhole(view: SessionView | null): view is SessionView {
  return view !== null && !view.gap && view.seq > 0;
}

/** The children in a view that are at work, but of which not everything was seen. */
export function childrenToRead(view: SessionView): string[] {
  return view.blocks.flatMap((block) => {
    const child = block.kind === "tool" || block.kind === "child" ? block.child : null;
    if (child?.status !== "running") return [];
    if (!isWhole(child.view)) return [child.session];
    return childrenToRead(child.view);
  });
}

export function childIn(view: SessionView, session: string): SessionView | null {
  for (const block of view.blocks) {
    const child = block.kind === "tool" || block.kind === "child" ? block.child : null;
    if (!child) continue;
    const found = child.session === session ? child.view : child.view && childIn(child.view, session);
    if (found) return found;
  }
  return null;
}

/** What was read, with the fragments that were seen live and are not in it yet. */
function carriedOver(seen: SessionView | null, read: SessionView): SessionView {
  if (!seen?.unsettled.size) return read;
  const settled = new Set(read.blocks.map((block) => ("message" in block ? block.message : "")));
  const open = [...seen.unsettled].filter(([message]) => !settled.has(message));
  const keys = new Set(open.flatMap(([, some]) => some));
  const fragments = seen.blocks.filter((block) => keys.has(block.key)).map((block) => ({ ...block, anchor: read.leaf }));
  const blocks = [...read.blocks, ...fragments];
  return { ...read, blocks, places: new Map(blocks.map((block, place) => [block.key, place])), unsettled: new Map(open) };
}

/** With a child that was read from its own log, unless more of it was seen live. */
export function withChild(view: SessionView, read: SessionView): SessionView {
  let isChanged = false;
  const blocks = view.blocks.map((block) => {
    const child = block.kind === "tool" || block.kind === "child" ? block.child : null;
    if (!child) return block;
    const before = child.view;
    const isNewer = !before || !isWhole(before) || before.seq < read.seq;
    const after = child.session === read.id ? (isNewer ? carriedOver(before, read) : before) : before && withChild(before, read);
    if (after === before) return block;
    isChanged = true;
    return { ...block, child: { ...child, view: after } } as Block;
  });
  return isChanged ? { ...view, blocks } : view;
}
