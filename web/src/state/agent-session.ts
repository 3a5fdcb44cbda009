/** `AgentSession`: another vendor's agent, behind either API. */

import { type ReadonlySignal, signal } from "@preact/signals";
import type { Connection, StreamSource } from "../api/event-stream";
import { stored } from "./app";

export type AgentState = "unknown" | "starting" | "stable" | "asking" | "running" | "ended";

export interface AgentSession {
  readonly type: ReadonlySignal<string>;
  readonly state: ReadonlySignal<AgentState>;
  readonly connection: ReadonlySignal<Connection>;
  /** Whether a message to a busy agent waits in a queue; else it is refused. */
  readonly queues: boolean;
  /** The live bytes of its terminal; null if it has none. */
  readonly terminal: ReadonlySignal<StreamSource | null>;
  /** Its terminal as text, where the bytes are not available. */
  readonly screen: ReadonlySignal<string>;
  /** Asks for the text of the screen, since the bytes are not available. */
  requestScreen(): void;
  /** Whether the message was accepted. A toast reports a failure. */
  send(text: string): Promise<boolean>;
  press(keys: string): void;
  stop(): void;
  /** The path of the file for the agent. */
  upload(file: File): Promise<string>;
}

const NAMES: Record<string, string> = {
  claude: "Claude Code",
  goose: "Goose",
  aider: "Aider",
  gemini: "Gemini",
  amp: "Amp",
  codex: "Codex",
  cursor: "Cursor Agent",
  copilot: "Copilot",
  auggie: "Auggie",
  amazonq: "Amazon Q",
  opencode: "Opencode",
};

/** The product name of an agent type. */
export function agentName(type: string): string {
  return NAMES[type] ?? (type && type !== "custom" ? type : "Agent");
}

/** What the page shows of an agent: the conversation, its terminal, or both if there is room. */
export type AgentLayout = "chat" | "both" | "terminal";
export const agentLayout = signal<AgentLayout>(stored("agent-shown", "both"));
export const fitsBoth = signal(true);

/** The layout that fits. */
export function currentLayout(): AgentLayout {
  return agentLayout.value === "both" && !fitsBoth.value ? "chat" : agentLayout.value;
}
