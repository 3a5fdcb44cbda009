/** The one agent of a server that speaks the agentapi wire. */

import { computed, effect, signal } from "@preact/signals";
import { type AgentView, NOTHING_SEEN, foldAgent, retold, spoken } from "../transcript/agent-view";
import type { Block, UserBlock } from "../transcript/session-view";
import { Agentapi } from "../api/agentapi";
import { type Connection, Follower } from "../api/event-stream";
import { KeyPresses } from "../api/key-queue";
import type { Frame } from "../api/types";
import { toast } from "./app";
import type { AgentState, DrivenAgent } from "./agent-session";
import { followWhileSeen } from "./visible-stream";

const PATIENCE = { first: 5000, silence: 50_000, backoff: 5000, polling: 120_000 };
const INTERRUPT = "\x1b";

export class AgentapiAgent implements DrivenAgent {
  readonly id = "agent";
  readonly queues = false;
  readonly connection = signal<Connection>("connecting");
  readonly screen = signal("");
  readonly missing = signal(false);
  private readonly seen = signal<AgentView>(NOTHING_SEEN);
  /** What was sent and is not seen yet. */
  private readonly sending = signal<UserBlock | null>(null);
  private readonly transport = signal("");
  private readonly keys: KeyPresses;
  private readonly toldProblems = new Set<string>();
  private stopScreen: (() => void) | null = null;

  readonly type = computed(() => this.seen.value.agentType);
  readonly state = computed<AgentState>(() => this.seen.value.status || "unknown");
  readonly terminal = computed(() => (this.transport.value === "pty" ? this.wire.terminal : null));
  readonly blocks = computed<Block[]>(() => {
    const { blocks, status } = this.seen.value;
    const said = blocks.filter((block) => block.kind === "user" || block.text.trim() || (status === "running" && block === blocks.at(-1)));
    const shown = this.transport.value === "acp" ? said.map(spoken) : said;
    return this.sending.value ? [...shown, this.sending.value] : shown;
  });
  readonly view = computed(() => ({ caughtUp: this.seen.value.status !== "" }));

  constructor(private readonly wire: Agentapi) {
    this.keys = new KeyPresses(
      (keys) => this.wire.send(keys, "raw"),
      (error) => this.complain("The keys were not sent", error),
    );
  }

  open(): void {
    const follower = new Follower(
      this.wire.events,
      {
        frames: (frames) => this.take(frames),
        connection: (state) => this.connect(state),
        refused: () => { this.missing.value = true; },
      },
      0,
      PATIENCE,
    );
    followWhileSeen(follower);
    effect(() => {
      for (const { key, text, level } of this.seen.value.problems) {
        if (!this.toldProblems.has(key)) toast(text, level, true);
        this.toldProblems.add(key);
      }
    });
  }

  private connect(state: Connection): void {
    this.connection.value = state;
    if (state !== "live" && state !== "polling") return;
    this.seen.value = retold(this.seen.value);
    if (!this.transport.value) void this.askTransport();
  }

  private async askTransport(): Promise<void> {
    try {
      this.transport.value = (await this.wire.status()).transport ?? "pty";
    } catch {
      // It is asked again with the next connection.
    }
  }

  private take(frames: Frame[]): void {
    const after = foldAgent(this.seen.value, frames);
    const sent = this.sending.value;
    if (sent && after.blocks.some((block) => block.kind === "user" && block.seq > sent.seq)) this.sending.value = null;
    this.seen.value = after;
  }

  wantScreen(): void {
    this.stopScreen ??= followWhileSeen(
      new Follower(this.wire.screen, {
        frames: (frames) => { this.screen.value = frames.at(-1)?.["screen"] ?? this.screen.value; },
        connection: () => {},
        refused: () => { this.transport.value = "none"; },
      }),
    );
  }

  async send(text: string): Promise<boolean> {
    const seq = this.seen.value.blocks.at(-1)?.seq ?? 0;
    const sent: UserBlock = { key: "sending", anchor: 0, time: "", kind: "user", seq, content: [{ type: "text", text }], source: "sending" };
    this.sending.value = sent;
    try {
      await this.wire.send(text, "user");
      return true;
    } catch (error) {
      if (this.sending.value === sent) this.sending.value = null;
      this.complain("Failed to send the message", error);
      return false;
    }
  }

  private complain(what: string, error: unknown): void {
    toast(`${what}: ${error instanceof Error ? error.message : String(error)}`, "error");
  }

  press(keys: string): void {
    this.keys.press(keys);
  }

  stop(): void {
    this.press(INTERRUPT);
  }

  upload(file: File): Promise<string> {
    return this.wire.upload(file);
  }
}
