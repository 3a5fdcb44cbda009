/** Calls of API v1. The session's cookie says who asks; the header shows that it was this page. */

import type { Source } from "./event-stream";
import { ROOT } from "./root";
import type {
  Command,
  Finding,
  Frame,
  Me,
  MentionedFile,
  ModelInfo,
  OpenQuestion,
  SearchHit,
  SessionShown,
  SessionSummary,
  Settled,
  Spent,
  ToolDress,
  Upload,
  UsageGroup,
  WaitingRequest,
} from "./types";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
  ) {
    super(message);
  }
}

const API = new URL("api/v1/", ROOT);

export function apiUrl(path: string): string {
  return new URL(path, API).href;
}

async function problemOf(response: Response): Promise<Problem> {
  let said: { title?: string; detail?: string; kind?: string } = {};
  try {
    said = (await response.json()) as typeof said;
  } catch {
    // Something between us and the server answered, in words of its own.
  }
  return new Problem(response.status, said.kind ?? "", said.detail || said.title || `The server answered ${response.status}.`);
}

/** Not `crypto.randomUUID`: a page that came over plain http from another machine has none. */
const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const method = init.method ?? "GET";
  if (method !== "GET") headers.set("X-Ostler", "1");
  if (method === "POST" && !headers.has("Idempotency-Key")) headers.set("Idempotency-Key", newKey());
  let response: Response;
  try {
    response = await fetch(apiUrl(path), { ...init, headers, credentials: "same-origin" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(0, "offline", "The server cannot be reached.");
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function get<T>(path: string, init: RequestInit = {}): Promise<T> {
  return (await (await send(path, init)).json()) as T;
}

async function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  const response = await send(path, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

const at = (session: string, rest = ""): string => `sessions/${encodeURIComponent(session)}${rest}`;
const query = (values: Record<string, string | number>): string => {
  const set = Object.entries(values).filter(([, value]) => value !== "");
  return set.length ? `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}` : "";
};

export const api = {
  me: () => get<Me>("me"),
  login: (token: string) => post<unknown>("login", { token }),
  sessions: (q = "", before = "", limit = 60) =>
    get<{ sessions: SessionSummary[]; next: string }>(`sessions${query({ q, before, limit })}`),
  search: (q: string) => get<{ hits: SearchHit[] }>(`sessions/search${query({ q, limit: 30 })}`),
  create: (body: { cwd?: string; title?: string; model?: string; agent?: { command: string[] } }) => post<{ id: string }>("sessions", body),
  show: (id: string) => get<SessionShown>(at(id)),
  delete: (id: string) => send(at(id), { method: "DELETE" }),
  startAgain: (id: string, command: string[] | null) => post<unknown>(at(id, "/agent"), command ? { agent: { command } } : {}),
  endAgent: (id: string) => send(at(id, "/agent"), { method: "DELETE" }),
  tree: (id: string) => get<{ leaf: number; entries: TreeEntry[] }>(at(id, "/tree")),
  request: (id: string, body: { type: string } & Record<string, unknown>, wait = 0) =>
    post<Settled>(at(id, `/requests${query({ wait: wait || "" })}`), { by: "web", ...body }),
  waiting: (id: string) => get<{ requests: WaitingRequest[] }>(at(id, "/requests")),
  takeBack: (id: string, request: string) =>
    send(at(id, `/requests/${encodeURIComponent(request)}`), { method: "DELETE" }),
  fork: (id: string, entry: number) => post<{ id: string }>(at(id, "/fork"), { entry }),
  navigate: (id: string, entry: number) => post<unknown>(at(id, "/navigate"), { entry }),
  label: (id: string, entry: number, label: string) => post<unknown>(at(id, "/label"), { entry, label }),
  facts: (id: string, after: number, limit = 1000) =>
    get<{ facts: Frame[]; last_seq: number; has_more: boolean }>(at(id, `/events${query({ after, limit })}`)),
  questions: () => get<{ questions: OpenQuestion[] }>("questions"),
  questionsOf: (id: string) => get<{ questions: OpenQuestion[] }>(at(id, "/questions")),
  context: (id: string) => get<Record<string, unknown>>(at(id, "/context")),
  usage: (by: string, since: string) =>
    get<{ groups: UsageGroup[]; own: Spent; children: Spent }>(`usage${query({ by, since })}`),
  renderers: (id: string) => get<{ tools: ToolDress[] }>(at(id, "/renderers")),
  renderedLive: (id: string, rendering: string, width: number) =>
    get<{ text: string | null }>(at(id, `/live/rendered${query({ id: rendering, width })}`)),
  renderedFact: (id: string, seq: number, width: number) =>
    get<{ text: string | null }>(at(id, `/events/rendered${query({ seq, width })}`)),
  commands: (id: string) => get<{ commands: Command[] }>(at(id, "/commands")),
  models: (cwd: string) => get<{ models: ModelInfo[]; default?: string; looked_for?: Finding[] }>(`models${query({ cwd })}`),
  files: (cwd: string, q: string) => get<{ files: MentionedFile[]; complete: boolean }>(`files${query({ cwd, q, limit: 12 })}`),
  argumentsOf: (id: string, command: string, typed: string) =>
    get<{ arguments: string[] }>(at(id, `/commands/${encodeURIComponent(command)}/arguments${query({ typed })}`)),
  upload: async (file: File): Promise<Upload> => {
    const headers = { "Content-Type": file.type || "application/octet-stream" };
    const response = await send(`uploads${query({ name: file.name || "pasted" })}`, { method: "POST", headers, body: file });
    return (await response.json()) as Upload;
  },
  importFile: async (file: File, cwd: string): Promise<SessionSummary> => {
    const headers = { "Content-Type": "application/x-ndjson" };
    const response = await send(`sessions/import${query({ cwd })}`, { method: "POST", headers, body: file });
    return (await response.json()) as SessionSummary;
  },
  blobUrl: (id: string, blob: string) => apiUrl(at(id, `/blobs/${encodeURIComponent(blob)}`)),
  exportUrl: (id: string, format: string) => apiUrl(at(id, `/export?format=${format}`)),
};

/** The live bytes of an agent's terminal. */
export function terminalSource(id: string): Source {
  const headers = { Accept: "text/event-stream" };
  return {
    stream: (_, signal) => fetch(apiUrl(at(id, "/terminal")), { headers, signal, credentials: "same-origin", cache: "no-store" }),
  };
}

export interface TreeEntry {
  seq: number;
  parent: number;
  type: string;
  text?: string;
  label?: string;
}
