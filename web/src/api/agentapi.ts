/** The agentapi wire: one agent, without sessions and without a token. */

import { type Page, type Source, checked } from "./event-stream";
import type { Frame } from "./types";

/** Milliseconds between two questions where streams do not come through. */
const EVERY = 1000;

export interface AgentStatus {
  status: string;
  agent_type: string;
  /** An agent without a terminal says `acp`. */
  transport?: string;
}
interface Message {
  id: number;
  role: string;
  content: string;
  time: string;
}
interface Problem {
  title?: string;
  detail?: string;
  errors?: { message?: string }[];
}

async function said(response: Response): Promise<string> {
  try {
    const { title, detail, errors = [] } = (await response.json()) as Problem;
    const why = errors.flatMap((one) => one.message ?? []).join("; ");
    return [detail || title, why].filter(Boolean).join(": ") || `The server answered ${response.status}.`;
  } catch {
    return `The server answered ${response.status}.`; // something between us and it, in words of its own
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

export class Agentapi {
  private askedAt = 0;

  /** `base` is the folder of its routes. */
  constructor(private readonly base: URL) {}

  private url(path: string): string {
    return new URL(path, this.base).href;
  }

  private async post<T>(path: string, init: RequestInit): Promise<T> {
    let response: Response;
    try {
      response = await fetch(this.url(path), { method: "POST", ...init });
    } catch {
      throw new Error("The server cannot be reached.");
    }
    if (!response.ok) throw new Error(await said(response));
    return (await response.json()) as T;
  }

  send(content: string, type: "user" | "raw"): Promise<unknown> {
    return this.post("message", { headers: { "Content-Type": "application/json" }, body: JSON.stringify({ content, type }) });
  }

  async upload(file: File): Promise<string> {
    const body = new FormData();
    body.append("file", file);
    return (await this.post<{ filePath: string }>("upload", { body })).filePath;
  }

  private async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await checked(await fetch(this.url(path), { cache: "no-store", ...(signal && { signal }) })).json()) as T;
  }

  status(signal?: AbortSignal): Promise<AgentStatus> {
    return this.get("status", signal);
  }

  stream(path: string, signal: AbortSignal): Promise<Response> {
    return fetch(this.url(path), { headers: { Accept: "text/event-stream" }, signal, cache: "no-store" });
  }

  /** What is said and how it stands; a stream tells all of it from the start, and so does each question. */
  readonly events: Source = {
    stream: (_, signal) => this.stream("events", signal),
    poll: (_, signal) => this.ask(signal),
  };

  private async ask(signal: AbortSignal): Promise<Page> {
    await pause(Math.max(0, this.askedAt + EVERY - Date.now()), signal);
    this.askedAt = Date.now();
    const { messages } = await this.get<{ messages: Message[] }>("messages", signal);
    const { status, agent_type } = await this.status(signal);
    const facts: Frame[] = messages.map(({ id, role, content, time }) => ({ type: "message_update", id, role, message: content, time }));
    return { facts: [...facts, { type: "status_change", status, agent_type }], has_more: false };
  }

  /** The bytes of its terminal. */
  readonly terminal: Source = { stream: (_, signal) => this.stream("internal/terminal", signal) };
  /** Its terminal as text, where the bytes cannot be had. */
  readonly screen: Source = { stream: (_, signal) => this.stream("internal/screen", signal) };
}

/** Where the agent is: one folder above the page, or where the address says. */
export function agentBase(root: URL, search: string): URL {
  const named = new URLSearchParams(search).get("url");
  return named ? new URL(named.endsWith("/") ? named : `${named}/`, root) : new URL("../", root);
}
