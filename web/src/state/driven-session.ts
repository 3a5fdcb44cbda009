/** Another vendor's agent in a session of this server. */

import { computed } from "@preact/signals";
import { api, terminalSource } from "../api/client";
import type { StreamSource } from "../api/event-stream";
import { KeyQueue } from "../api/key-queue";
import type { AgentSession, AgentState } from "./agent-session";
import { toast } from "./app";
import type { OpenSession } from "./open-session";

interface LiveStatus {
  status: string;
  agent_type: string;
}
const STATES: Record<string, AgentState> = { initializing: "starting", changing: "running", stable: "stable", asking: "asking" };

class DrivenSession implements AgentSession {
  readonly queues = true;
  readonly connection;
  private readonly bytes: StreamSource;
  private readonly keys: KeyQueue;

  constructor(private readonly session: OpenSession) {
    this.connection = session.connection;
    this.bytes = terminalSource(session.id);
    this.keys = new KeyQueue(
      (keys) => api.request(session.id, { type: "keys", keys }),
      (error) => toast(error instanceof Error ? error.message : String(error), "error"),
    );
  }

  private readonly live = computed(() => this.session.view.value.liveValues.get("terminal:status") as LiveStatus | undefined);
  readonly type = computed(() => this.live.value?.agent_type ?? this.session.details.value?.agent?.type ?? "");
  readonly screen = computed(() => (this.session.view.value.liveValues.get("terminal:screen") as { text?: string } | undefined)?.text ?? "");
  readonly terminal = computed(() => (this.session.view.value.driver === "terminal" && this.state.value !== "ended" ? this.bytes : null));

  readonly state = computed<AgentState>(() => {
    const live = this.live.value;
    if (live) return STATES[live.status] ?? "unknown";
    const { run, caughtUp } = this.session.view.value;
    const details = this.session.details.value;
    if (!caughtUp || !details) return "unknown";
    if (!details.holder) return "ended";
    return run ? "running" : "unknown"; // its process cannot be reached: only facts arrive
  });

  requestScreen(): void {} // it is a live value of the session

  async send(text: string): Promise<boolean> {
    return Boolean(await this.session.request({ type: "prompt", content: [{ type: "text", text }] }));
  }

  press(keys: string): void {
    this.keys.press(keys);
  }

  stop(): void {
    void this.session.request({ type: "cancel" });
  }

  async upload(file: File): Promise<string> {
    const { path, name } = await api.upload(file);
    if (!path) throw new Error(`The agent cannot access ${name}.`);
    return path;
  }
}

const agents = new WeakMap<OpenSession, AgentSession>();

/** The agent of a session, created once. */
export function agentOf(session: OpenSession): AgentSession {
  const agent = agents.get(session) ?? new DrivenSession(session);
  agents.set(session, agent);
  return agent;
}
