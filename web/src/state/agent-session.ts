/** Another vendor's agent, over whichever wire it is reached. */

import { type ReadonlySignal, signal } from "@preact/signals";
import type { Connection, Source } from "../api/event-stream";
import { stored } from "./app";

export type AgentState = "unknown" | "starting" | "stable" | "running" | "ended";

export interface DrivenAgent {
  readonly type: ReadonlySignal<string>;
  readonly state: ReadonlySignal<AgentState>;
  readonly connection: ReadonlySignal<Connection>;
  /** Whether what is sent while it works waits its turn; else it is refused. */
  readonly queues: boolean;
  /** The live bytes of its terminal; null for an agent that has none. */
  readonly terminal: ReadonlySignal<Source | null>;
  /** Its terminal as text, for where the bytes cannot be had. */
  readonly screen: ReadonlySignal<string>;
  /** The bytes cannot be had: from now on the text is wanted. */
  wantScreen(): void;
  /** Whether it was taken. What went wrong is said. */
  send(text: string): Promise<boolean>;
  press(keys: string): void;
  stop(): void;
  /** The path of the file where the agent finds it. */
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

/** An agent that nobody has a name for is called as it is. */
export function agentName(type: string): string {
  return NAMES[type] ?? (type && type !== "custom" ? type : "Agent");
}

/** What is seen of an agent: the conversation, its terminal, or both where there is room. */
export type AgentShown = "chat" | "both" | "terminal";
export const agentShown = signal<AgentShown>(stored("agent-shown", "both"));
export const hasRoomForBoth = signal(true);

/** `both` is a wish. */
export function shownNow(): AgentShown {
  return agentShown.value === "both" && !hasRoomForBoth.value ? "chat" : agentShown.value;
}
