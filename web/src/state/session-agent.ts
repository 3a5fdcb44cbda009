/** Another vendor's agent as a session of this server. */

import { computed } from "@preact/signals";
import { api, terminalSource } from "../api/client";
import { KeyPresses } from "../api/key-queue";
import type { Source } from "../api/event-stream";
import { toast } from "./app";
import type { AgentState, DrivenAgent } from "./agent-session";
import type { OpenSession } from "./open-session";

interface LiveStatus {
  status: string;
  agent_type: string;
}
const STATES: Record<string, AgentState> = { initializing: "starting", changing: "running", stable: "stable" };

class SessionAgent implements DrivenAgent {
  readonly queues = true;
  readonly connection;
  private readonly bytes: Source;
  private readonly keys: KeyPresses;

  constructor(private readonly session: OpenSession) {
    this.connection = session.connection;
    this.bytes = terminalSource(session.id);
    this.keys = new KeyPresses(
      (keys) => api.request(session.id, { type: "keys", keys }),
      (error) => toast(error instanceof Error ? error.message : String(error), "error"),
    );
  }

  private readonly live = computed(() => this.session.view.value.live.get("terminal:status") as LiveStatus | undefined);
  readonly type = computed(() => this.live.value?.agent_type ?? this.session.shown.value?.agent?.type ?? "");
  readonly screen = computed(() => (this.session.view.value.live.get("terminal:screen") as { text?: string } | undefined)?.text ?? "");
  readonly terminal = computed(() => (this.session.view.value.driver === "terminal" && this.state.value !== "ended" ? this.bytes : null));

  readonly state = computed<AgentState>(() => {
    const live = this.live.value;
    if (live) return STATES[live.status] ?? "unknown";
    const { run, caughtUp } = this.session.view.value;
    const shown = this.session.shown.value;
    if (!caughtUp || !shown) return "unknown";
    if (!shown.holder) return "ended";
    return run ? "running" : "unknown"; // its process cannot be reached: only facts are seen
  });

  wantScreen(): void {} // it comes with the session

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
    if (!path) throw new Error(`${name} was kept where the agent cannot find it.`);
    return path;
  }
}

const agents = new WeakMap<OpenSession, DrivenAgent>();

/** The agent of a session, made once. */
export function agentOf(session: OpenSession): DrivenAgent {
  const agent = agents.get(session) ?? new SessionAgent(session);
  agents.set(session, agent);
  return agent;
}
