/** The client of an agentapi server: one agent, no sessions; a token only if the server requires one. */

import { authorizedFetch } from "./credentials";
import { type Page, type StreamSource, checked } from "./event-stream";
import type { StreamEvent } from "./types";

/** Milliseconds between two polls, where streams do not get through. */
const POLL_INTERVAL = 1000;

export interface AgentStatus {
  status: string;
  agent_type: string;
  /** `acp` for an agent without a terminal. */
  transport?: string;
}
interface Message {
  id: number;
  role: string;
  content: string;
  time: string;
}
interface ErrorBody {
  title?: string;
  detail?: string;
  errors?: { message?: string }[];
}

async function errorMessage(response: Response): Promise<string> {
  try {
    const { title, detail, errors = [] } = (await response.json()) as ErrorBody;
    const reasons = errors.flatMap((error) => error.message ?? []).join("; ");
    return [detail || title, reasons].filter(Boolean).join(": ") || `The server answered ${response.status}.`;
  } catch {
    return `The server answered ${response.status}.`; // a proxy answered, not the server
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

export class Agentapi {
  private polledAt = 0;

  /** `base` is the folder of the routes. */
  constructor(private readonly base: URL) {}

  private url(path: string): string {
    return new URL(path, this.base).href;
  }

  private async post<T>(path: string, init: RequestInit): Promise<T> {
    let response: Response;
    try {
      response = await authorizedFetch(this.url(path), { method: "POST", ...init });
    } catch {
      throw new Error("The server cannot be reached.");
    }
    if (!response.ok) throw new Error(await errorMessage(response));
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
    return (await checked(await authorizedFetch(this.url(path), { cache: "no-store", ...(signal && { signal }) })).json()) as T;
  }

  status(signal?: AbortSignal): Promise<AgentStatus> {
    return this.get("status", signal);
  }

  stream(path: string, signal: AbortSignal): Promise<Response> {
    return authorizedFetch(this.url(path), { headers: { Accept: "text/event-stream" }, signal, cache: "no-store" });
  }

  /** Messages and status. Each stream and each poll starts from the first message. */
  readonly events: StreamSource = {
    stream: (_, signal) => this.stream("events", signal),
    poll: (_, signal) => this.poll(signal),
  };

  private async poll(signal: AbortSignal): Promise<Page> {
    await pause(Math.max(0, this.polledAt + POLL_INTERVAL - Date.now()), signal);
    this.polledAt = Date.now();
    const { messages } = await this.get<{ messages: Message[] }>("messages", signal);
    const { status, agent_type } = await this.status(signal);
    const facts: StreamEvent[] = messages.map(({ id, role, content, time }) => ({ type: "message_update", id, role, message: content, time }));
    return { facts: [...facts, { type: "status_change", status, agent_type }], has_more: false };
  }

  /** The bytes of its terminal. */
  readonly terminal: StreamSource = { stream: (_, signal) => this.stream("internal/terminal", signal) };
  /** Its terminal as text, where the bytes are not available. */
  readonly screen: StreamSource = { stream: (_, signal) => this.stream("internal/screen", signal) };
}

/** The address of the agent: one folder above the page, or the `url` of the query. */
export function agentBase(root: URL, search: string): URL {
  const url = new URLSearchParams(search).get("url");
  return url ? new URL(url.endsWith("/") ? url : `${url}/`, root) : new URL("../", root);
}
