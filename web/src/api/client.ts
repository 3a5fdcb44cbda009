/** The client of API v1. The token of the page authenticates it. */

import { authorizedFetch, rootUrl } from "./credentials";
import { type Page, type StreamSource, checked } from "./event-stream";
import type {
  Command,
  Me,
  MentionedFile,
  ModelInfo,
  OpenQuestion,
  RequestState,
  SearchHit,
  SessionDetails,
  SessionSummary,
  SetupCheck,
  Spending,
  StreamEvent,
  ToolAppearance,
  Upload,
  UsageGroup,
  WaitingRequest,
} from "./types";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
  ) {
    super(message);
  }
}

export const ROOT = rootUrl();
/** The page of an agentapi server is one folder below the server. */
const isEmbedded = globalThis.document?.querySelector<HTMLMetaElement>("meta[name=ostler-wire]")?.content === "agentapi";
const API = new URL(isEmbedded ? "../api/v1/" : "api/v1/", ROOT);

export function apiUrl(path: string): string {
  return new URL(path, API).href;
}

async function errorFrom(response: Response): Promise<ApiError> {
  let problem: { title?: string; detail?: string; kind?: string } = {};
  try {
    problem = (await response.json()) as typeof problem;
  } catch {
    // A proxy answered, not the server.
  }
  return new ApiError(response.status, problem.kind ?? "", problem.detail || problem.title || `The server answered ${response.status}.`);
}

/** Not `crypto.randomUUID`: it is missing where the page came over plain HTTP from another machine. */
const newIdempotencyKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const method = init.method ?? "GET";
  if (method === "POST" && !headers.has("Idempotency-Key")) headers.set("Idempotency-Key", newIdempotencyKey());
  let response: Response;
  try {
    response = await authorizedFetch(apiUrl(path), { ...init, headers });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "offline", "The server cannot be reached.");
  }
  if (!response.ok) throw await errorFrom(response);
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

const sessionPath = (session: string, path = ""): string => `sessions/${encodeURIComponent(session)}${path}`;
const query = (values: Record<string, string | number>): string => {
  const parameters = Object.entries(values).filter(([, value]) => value !== "");
  return parameters.length ? `?${new URLSearchParams(parameters.map(([name, value]) => [name, String(value)]))}` : "";
};

export const api = {
  me: () => get<Me>("me"),
  login: (token: string) => post<{ token: string }>("login", { token }),
  logout: () => send("logout", { method: "POST" }),
  sessions: (q = "", before = "", limit = 60) =>
    get<{ sessions: SessionSummary[]; next: string }>(`sessions${query({ q, before, limit })}`),
  search: (q: string) => get<{ hits: SearchHit[] }>(`sessions/search${query({ q, limit: 30 })}`),
  create: (body: { cwd?: string; title?: string; model?: string; permissions?: string; agent?: { command: string[] } }) => post<{ id: string }>("sessions", body),
  session: (id: string) => get<SessionDetails>(sessionPath(id)),
  setPermissions: (id: string, profile: string) =>
    send(sessionPath(id, "/permissions"), { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ profile }) }),
  delete: (id: string) => send(sessionPath(id), { method: "DELETE" }),
  restartAgent: (id: string, command: string[] | null) => post<unknown>(sessionPath(id, "/agent"), command ? { agent: { command } } : {}),
  stopAgent: (id: string) => send(sessionPath(id, "/agent"), { method: "DELETE" }),
  tree: (id: string) => get<{ leaf: number; entries: TreeEntry[] }>(sessionPath(id, "/tree")),
  request: (id: string, body: { type: string } & Record<string, unknown>, wait = 0) =>
    post<RequestState>(sessionPath(id, `/requests${query({ wait: wait || "" })}`), { by: "web", ...body }),
  requests: (id: string) => get<{ requests: WaitingRequest[] }>(sessionPath(id, "/requests")),
  withdraw: (id: string, request: string) =>
    send(sessionPath(id, `/requests/${encodeURIComponent(request)}`), { method: "DELETE" }),
  fork: (id: string, entry: number) => post<{ id: string }>(sessionPath(id, "/fork"), { entry }),
  navigate: (id: string, entry: number) => post<unknown>(sessionPath(id, "/navigate"), { entry }),
  label: (id: string, entry: number, label: string) => post<unknown>(sessionPath(id, "/label"), { entry, label }),
  facts: (id: string, after: number, limit = 1000) =>
    get<{ facts: StreamEvent[]; last_seq: number; has_more: boolean }>(sessionPath(id, `/events${query({ after, limit })}`)),
  questions: () => get<{ questions: OpenQuestion[] }>("questions"),
  questionsOf: (id: string) => get<{ questions: OpenQuestion[] }>(sessionPath(id, "/questions")),
  context: (id: string) => get<Record<string, unknown>>(sessionPath(id, "/context")),
  usage: (by: string, since: string) =>
    get<{ groups: UsageGroup[]; own: Spending; children: Spending }>(`usage${query({ by, since })}`),
  renderers: (id: string) => get<{ tools: ToolAppearance[] }>(sessionPath(id, "/renderers")),
  renderedLive: (id: string, rendering: string, width: number) =>
    get<{ text: string | null }>(sessionPath(id, `/live/rendered${query({ id: rendering, width })}`)),
  renderedFact: (id: string, seq: number, width: number) =>
    get<{ text: string | null }>(sessionPath(id, `/events/rendered${query({ seq, width })}`)),
  commands: (id: string) => get<{ commands: Command[] }>(sessionPath(id, "/commands")),
  models: (cwd: string) => get<{ models: ModelInfo[]; default?: string; looked_for?: SetupCheck[] }>(`models${query({ cwd })}`),
  files: (cwd: string, q: string) => get<{ files: MentionedFile[]; complete: boolean }>(`files${query({ cwd, q, limit: 12 })}`),
  commandArguments: (id: string, command: string, typed: string) =>
    get<{ arguments: string[] }>(sessionPath(id, `/commands/${encodeURIComponent(command)}/arguments${query({ typed })}`)),
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
  blob: (id: string, blob: string) => send(sessionPath(id, `/blobs/${encodeURIComponent(blob)}`)),
  export: (id: string, format: string) => send(sessionPath(id, `/export?format=${format}`)),
};

/** The live bytes of an agent's terminal. */
export function terminalSource(id: string): StreamSource {
  const headers = { Accept: "text/event-stream" };
  return {
    stream: (_, signal) => authorizedFetch(apiUrl(sessionPath(id, "/terminal")), { headers, signal, cache: "no-store" }),
  };
}

export interface TreeEntry {
  seq: number;
  parent: number;
  type: string;
  text?: string;
  label?: string;
}

/** Seconds that a poll waits for facts. */
const WAIT = 25;

/** The events of a session. */
export function sessionSource(session: string): StreamSource {
  const path = sessionPath(session, "/events");
  const fetchEvents = (query: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> =>
    authorizedFetch(apiUrl(`${path}?${query}`), { headers, signal, cache: "no-store" });
  return {
    stream: (after, signal) => {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (after) headers["Last-Event-ID"] = String(after);
      return fetchEvents(`after=${after}`, headers, signal);
    },
    poll: async (after, signal, waits) => {
      const response = checked(await fetchEvents(`after=${after}&wait=${waits ? WAIT : 0}`, { Accept: "application/json" }, signal));
      return (await response.json()) as Page;
    },
  };
}
