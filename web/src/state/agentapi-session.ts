/** The agent of an agentapi server. */

import { computed, effect, signal } from "@preact/signals";
import { Agentapi } from "../api/agentapi";
import { type Connection, EventStream } from "../api/event-stream";
import { KeyQueue } from "../api/key-queue";
import type { StreamEvent } from "../api/types";
import { type AgentView, EMPTY_AGENT, applyToAgent, asMarkdown, restarted, userItem } from "../transcript/agent-view";
import { type Item, type UserItem, LIVE } from "../transcript/items";
import type { AgentSession, AgentState } from "./agent-session";
import { toast } from "./app";
import { openVisibleStream } from "./visible-stream";

const TIMEOUTS = { first: 5000, silence: 50_000, backoff: 5000, polling: 120_000 };
const INTERRUPT = "\x1b";

export class AgentapiSession implements AgentSession {
  readonly id = "agent";
  readonly queues = false;
  readonly connection = signal<Connection>("connecting");
  readonly screen = signal("");
  readonly missing = signal(false);
  /** The server requires a token, and this page has none. */
  readonly needsLogin = signal(false);
  private readonly agentView = signal<AgentView>(EMPTY_AGENT);
  /** The message that the server has not confirmed yet. */
  private readonly sending = signal<UserItem | null>(null);
  private readonly transport = signal("");
  private readonly keys: KeyQueue;
  private readonly reportedProblems = new Set<string>();
  private stopScreen: (() => void) | null = null;

  readonly type = computed(() => this.agentView.value.agentType);
  readonly state = computed<AgentState>(() => this.agentView.value.status || "unknown");
  readonly terminal = computed(() => (this.transport.value === "pty" ? this.api.terminal : null));
  readonly items = computed<Item[]>(() => {
    const { items, status } = this.agentView.value;
    const visible = items.filter((item) => item.kind === "user" || item.text.trim() || (status === "running" && item === items.at(-1)));
    const rendered = this.transport.value === "acp" ? visible.map(asMarkdown) : visible;
    return this.sending.value ? [...rendered, this.sending.value] : rendered;
  });
  readonly view = computed(() => ({ caughtUp: this.agentView.value.status !== "" }));

  constructor(private readonly api: Agentapi) {
    this.keys = new KeyQueue(
      (keys) => this.api.send(keys, "raw"),
      (error) => this.report("The keys were not sent", error),
    );
  }

  open(): void {
    const stream = new EventStream(
      this.api.events,
      {
        events: (events) => this.apply(events),
        connection: (state) => this.setConnection(state),
        refused: (status) => {
          if (status === 401) this.needsLogin.value = true;
          else this.missing.value = true;
        },
      },
      0,
      TIMEOUTS,
    );
    openVisibleStream(stream);
    effect(() => {
      for (const { key, text, level } of this.agentView.value.problems) {
        if (!this.reportedProblems.has(key)) toast(text, level, true);
        this.reportedProblems.add(key);
      }
    });
  }

  private setConnection(state: Connection): void {
    this.connection.value = state;
    if (state !== "live" && state !== "polling") return;
    this.agentView.value = restarted(this.agentView.value);
    if (!this.transport.value) void this.loadTransport();
  }

  private async loadTransport(): Promise<void> {
    try {
      this.transport.value = (await this.api.status()).transport ?? "pty";
    } catch {
      // The next connection tries again.
    }
  }

  private apply(events: StreamEvent[]): void {
    const after = applyToAgent(this.agentView.value, events);
    const sent = this.sending.value;
    if (sent && after.items.some((item) => item.kind === "user" && item.seq > sent.seq)) this.sending.value = null;
    this.agentView.value = after;
  }

  requestScreen(): void {
    this.stopScreen ??= openVisibleStream(
      new EventStream(this.api.screen, {
        events: (events) => { this.screen.value = events.at(-1)?.["screen"] ?? this.screen.value; },
        connection: () => {},
        refused: () => { this.transport.value = "none"; },
      }),
    );
  }

  async send(text: string): Promise<boolean> {
    const seq = this.agentView.value.items.at(-1)?.seq ?? 0;
    const sent = userItem({ ...LIVE, key: "sending", seq }, text, "sending");
    this.sending.value = sent;
    try {
      await this.api.send(text, "user");
      return true;
    } catch (error) {
      if (this.sending.value === sent) this.sending.value = null;
      this.report("The message was not sent", error);
      return false;
    }
  }

  private report(what: string, error: unknown): void {
    toast(`${what}: ${error instanceof Error ? error.message : String(error)}`, "error");
  }

  press(keys: string): void {
    this.keys.press(keys);
  }

  stop(): void {
    this.press(INTERRUPT);
  }

  upload(file: File): Promise<string> {
    return this.api.upload(file);
  }
}
