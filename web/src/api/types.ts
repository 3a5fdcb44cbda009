/** What goes over the wire: facts, live events, requests and answers of API v1. */

export interface TextBlock {
  type: "text";
  text: string;
}
export interface ImageBlock {
  type: "image";
  media_type: string;
  data?: string;
  url?: string;
}
export interface FileBlock {
  type: "file";
  media_type: string;
  name?: string;
  data?: string;
  url?: string;
}
export interface ReasoningBlock {
  type: "reasoning";
  text?: string;
}
export interface ToolCallBlock {
  type: "tool_call";
  id: string;
  name: string;
  arguments: string;
}
export type PlainBlock = TextBlock | ImageBlock | FileBlock;
export type ContentBlock = PlainBlock | ReasoningBlock | ToolCallBlock | { type: "tool_result" };

export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
  cost?: number | null;
}
export interface Totals {
  runs?: number;
  steps?: number;
  model_calls?: number;
  tool_calls?: number;
  usage?: Usage;
  duration_ms?: number;
  known_cost?: number;
}
export interface Failure {
  kind: string;
  message: string;
}
export interface BlobRef {
  id: string;
  size: number;
  media_type?: string;
}
export interface TodoItem {
  id: string;
  text: string;
  status?: "open" | "active" | "done" | "dropped";
}
export interface Question {
  text: string;
  kind?: "permission" | "choice" | "form" | "text";
  choices?: string[];
  form?: Schema | null;
  details?: Record<string, unknown> | null;
  secret?: boolean;
  reason?: string;
}
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  enumNames?: string[];
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  oneOf?: Schema[];
  anyOf?: Schema[];
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
}
export interface Display {
  view?: string;
  title?: string;
  icon?: string;
}
export type RunStatus = "completed" | "cancelled" | "refused" | "limit" | "interrupted" | "failed";

/** One JSON object of a stream. Its fields depend on `type`; facts have a `seq`. */
export interface Frame {
  type: string;
  seq?: number;
  session?: string;
  run?: string;
  time?: string;
  parent?: number;
  [field: string]: any;
}

/** The number of a fact; 0 for what is none. `caught_up` names the last fact, and is none itself. */
export function factNumber(frame: Frame): number {
  return frame.type === "caught_up" ? 0 : (frame.seq ?? 0);
}

export interface SessionSummary {
  id: string;
  cwd: string;
  created_ms: number;
  updated_ms: number;
  last_seq: number;
  title?: string;
  preview?: string;
  status?: string;
  driver?: string;
  agent?: AgentShown | null;
  forked_from?: string;
  child_of?: string;
}
export interface SearchHit {
  session: string;
  seq: number;
  snippet: string;
  time_ms: number;
  title?: string;
}
export interface OpenQuestion {
  session: string;
  asked: { id: string; question: Question; call?: string; asked_by?: string };
  agent?: string;
}
export interface WaitingRequest {
  id: string;
  type: string;
  content?: PlainBlock[];
  /** Of a command. */
  name?: string;
  arguments?: string;
  by?: string;
}
/** Another vendor's agent. */
export interface AgentShown {
  type: string;
  status: "initializing" | "changing" | "stable" | "elsewhere" | "ended";
  /** How it is driven; empty where this server does not. */
  transport: "" | "pty" | "acp" | "stream-json";
  /** It can be started again without saying how. */
  remembered: boolean;
}
export interface SessionShown extends SessionSummary {
  model?: string;
  reasoning?: string;
  run?: { id: string; status: "running" | "waiting" | "cut"; children?: string[] } | null;
  held?: boolean;
  /** The process that has it open. */
  holder?: { pid: number; host: string; here: boolean } | null;
  questions?: OpenQuestion[];
  waiting?: WaitingRequest[];
  context?: { used?: number; window?: number };
}
export interface Me {
  scope: "all" | "observe";
  version: string;
  cwd?: string;
  /** Empty when none can answer. */
  model?: string;
  notice?: string;
}
export interface Finding {
  name: string;
  found: boolean;
  detail: string;
  to_do?: string;
}
/** Lines that an extension draws are asked for by their id. */
export interface Rendering {
  id: string;
  hz?: number;
}
/** How an extension wants calls of a tool to be shown. */
export interface ToolDress {
  tool: string;
  title?: string;
  color?: string;
  background?: string;
  markdown?: boolean;
  header?: boolean;
  body?: boolean;
}
export interface Spent {
  calls?: number;
  usage?: Usage;
  known_cost?: number | null;
  unpriced_calls?: number;
}
export interface UsageGroup {
  day?: string;
  model?: string;
  session?: string;
  own?: Spent;
  children?: Spent;
}
export interface Command {
  name: string;
  description?: string;
  kind?: string;
  arguments?: string;
}
export interface ModelInfo {
  name: string;
  provider?: string;
  ready?: boolean;
  to_do?: string;
  default?: boolean;
  aliases?: string[];
  reasoning?: string[];
  window?: number | null;
  prices?: { input?: number; output?: number } | null;
}
export interface MentionedFile {
  path: string;
  mention: string;
}
export interface Upload {
  id: string;
  name: string;
  media_type: string;
  size: number;
  path?: string;
}
export interface Settled {
  id: string;
  state: "waiting" | "settled" | "refused";
  seq?: number;
  fact?: Frame;
}
