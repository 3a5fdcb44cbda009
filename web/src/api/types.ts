/** The types of API v1: events, requests and responses. */

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
  writeOnly?: boolean;
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

/** One event of a stream. Its fields depend on `type`; facts have a `seq`. */
export interface StreamEvent {
  type: string;
  seq?: number;
  session?: string;
  run?: string;
  time?: string;
  parent?: number;
  [field: string]: any;
}

/** The number of a fact; 0 for a live event. `caught_up` has the number of the last fact, but is no fact. */
export function factNumber(event: StreamEvent): number {
  return event.type === "caught_up" ? 0 : (event.seq ?? 0);
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
  agent?: AgentInfo | null;
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
  /** The child that asks; empty for the session itself. */
  agent?: string;
  preview?: CallPreview | null;
}
/** What a call would do, from its files as they are now. Characters that could deceive are named: `⟨U+202E⟩`. */
export interface CallPreview {
  tool?: string;
  path?: string;
  /** Where the path leads, if that is elsewhere. */
  target?: string;
  command?: string;
  /** A unified diff, with all hunks. */
  diff?: string;
  hunks?: number;
  /** The content of a file, and the edits, where there is no diff. */
  content?: string;
  edits?: Record<string, unknown>[];
  note?: string;
  arguments?: Record<string, unknown>;
  /** How many characters were named. */
  marks?: number;
}
export interface WaitingRequest {
  id: string;
  type: string;
  content?: PlainBlock[];
  /** The name of a command. */
  name?: string;
  arguments?: string;
  by?: string;
}
/** Another vendor's agent. */
export interface AgentInfo {
  type: string;
  status: "initializing" | "changing" | "stable" | "asking" | "elsewhere" | "ended";
  /** How this server drives it; empty if it does not. */
  transport: "" | "pty" | "acp" | "stream-json";
  /** The server knows the command that restarts it. */
  remembered: boolean;
}
export interface SessionDetails extends SessionSummary {
  model?: string;
  reasoning?: string;
  /** The permission profile; empty if another process has the session open. */
  permissions?: string;
  run?: { id: string; status: "running" | "waiting" | "cut"; children?: string[] } | null;
  held?: boolean;
  /** The process that has the session open. */
  holder?: { pid: number; host: string; here: boolean } | null;
  questions?: OpenQuestion[];
  waiting?: WaitingRequest[];
  context?: { used?: number; window?: number };
}
export interface Me {
  scope: "observe" | "prompt" | "approve" | "all" | "admin";
  version: string;
  cwd?: string;
  /** Empty if no model is available. */
  model?: string;
  notice?: string;
  /** The permission profile of a new session, and the highest one that can be chosen. */
  permissions?: string;
  max_permissions?: string;
}
export interface SetupCheck {
  name: string;
  found: boolean;
  detail: string;
  to_do?: string;
}
/** Lines that an extension renders, by their id. */
export interface Rendering {
  id: string;
  hz?: number;
}
/** How an extension presents the calls of a tool. */
export interface ToolAppearance {
  tool: string;
  title?: string;
  color?: string;
  background?: string;
  markdown?: boolean;
  header?: boolean;
  body?: boolean;
}
export interface Spending {
  calls?: number;
  usage?: Usage;
  known_cost?: number | null;
  unpriced_calls?: number;
}
export interface UsageGroup {
  day?: string;
  model?: string;
  session?: string;
  own?: Spending;
  children?: Spending;
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
export interface RequestState {
  id: string;
  state: "waiting" | "settled" | "refused";
  seq?: number;
  fact?: StreamEvent;
}
