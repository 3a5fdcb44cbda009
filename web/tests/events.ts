/** Builders of events for tests. */

import type { StreamEvent } from "../src/api/types";

export class Log {
  private seq = 0;
  private leaf = 0;

  record(type: string, fields: Record<string, unknown> = {}): StreamEvent {
    this.seq += 1;
    return { type, seq: this.seq, session: "ses_1", run: "run_1", time: "2026-01-01T00:00:00.000Z", ...fields };
  }

  entry(type: string, fields: Record<string, unknown> = {}, parent = this.leaf): StreamEvent {
    const made = this.record(type, { parent, ...fields });
    this.leaf = made.seq as number;
    return made;
  }

  move(to: number): StreamEvent {
    this.leaf = to;
    return this.record("leaf_moved", { to });
  }
}

export const text = (content: string): { type: "text"; text: string } => ({ type: "text", text: content });

export function delta(fragment: string, offset: number, message = "msg_1", block = 0): StreamEvent {
  return { type: "text_delta", message, block, offset, text: fragment };
}

/** A run that asks for one call of a tool and ends. */
export function oneCall(log: Log, name = "bash", call = "call_1"): StreamEvent[] {
  return [
    log.record("session_started", { cwd: "/project", version: "1" }),
    log.record("run_started", { version: "1", cwd: "/project", model: "vendor/one" }),
    log.entry("user_message", { content: [text("Do it")] }),
    log.record("step_started", { number: 1 }),
    log.record("model_called", { id: "msg_1", model: "vendor/one", digest: "" }),
    log.record("usage", { call: "msg_1", model: "vendor/one", usage: { input_tokens: 90, output_tokens: 10 }, cumulative: { input_tokens: 90, output_tokens: 10, cost: 0.5 } }),
    log.entry("assistant_message", { call: "msg_1", stop_reason: "tool_calls", content: [text("I look."), { type: "tool_call", id: call, name, arguments: '{"command": "ls"}' }] }),
    log.entry("tool_called", { call, name, arguments: { command: "ls" }, step: 1, kind: "execute" }),
  ];
}
