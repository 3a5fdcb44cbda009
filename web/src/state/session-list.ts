/** The list of sessions and the search, kept up to date while the page is visible. */

import { effect, signal } from "@preact/signals";
import { api, apiUrl } from "../api/client";
import { authorizedFetch } from "../api/credentials";
import { SseParser } from "../api/event-stream";
import type { OpenQuestion, SearchHit, SessionSummary, StreamEvent } from "../api/types";
import { previewText } from "../text/prompt";
import { access } from "./app";

export const sessions = signal<SessionSummary[]>([]);
export const hits = signal<SearchHit[]>([]);
export const searchText = signal("");
export const nextPage = signal("");
export const questions = signal<OpenQuestion[]>([]);
/** An open terminal needs a connection of its own: meanwhile the list is polled. */
export const terminalIsOpen = signal(false);
export const listState = signal<"loading" | "ready" | "failed">("loading");

/** Events that change a row or the open questions. */
const CHANGES_LIST = new Set(["session_started", "session_listed", "session_renamed", "run_started", "run_waiting", "run_resumed", "run_ended", "question_asked", "question_answered"]);
/** Milliseconds between two polls: without the stream, and beside it. */
const POLL_INTERVAL = 6000;
const LIVE_POLL_INTERVAL = 60_000;
/** Milliseconds of silence until a stream counts as buffered or dead. */
const SILENCE = 40_000;
/** Milliseconds in which several changes cause one refresh. */
const DEBOUNCE = 250;

let latest = 0;
let pages = 1;
let isLive = false;
let refreshedAt = 0;
let refreshTimer: ReturnType<typeof setTimeout> | undefined;

export async function refreshList(): Promise<void> {
  const attempt = (latest += 1);
  const query = searchText.value.trim();
  refreshedAt = Date.now();
  try {
    const [page, matches, open] = await Promise.all([
      api.sessions(query, "", 60 * pages),
      query.length > 1 ? api.search(query) : Promise.resolve({ hits: [] }),
      api.questions().catch(() => ({ questions: questions.value })),
    ]);
    if (attempt !== latest) return;
    sessions.value = page.sessions.map((session) => (session.preview ? { ...session, preview: previewText(session.preview) } : session));
    nextPage.value = page.next;
    hits.value = matches.hits;
    questions.value = open.questions;
    listState.value = "ready";
  } catch {
    if (attempt === latest && listState.value === "loading") listState.value = "failed";
  }
}

function refreshSoon(): void {
  refreshTimer ??= setTimeout(() => {
    refreshTimer = undefined;
    void refreshList();
  }, DEBOUNCE);
}

export function loadMore(): void {
  pages += 1;
  void refreshList();
}

let searchTimer: ReturnType<typeof setTimeout> | undefined;

export function search(text: string): void {
  searchText.value = text;
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => void refreshList(), 180);
}

/** Follows the events of all sessions until the stream ends. A refresh covers what was missed. */
async function followAll(signal: AbortSignal): Promise<void> {
  const attempt = new AbortController();
  const abort = (): void => attempt.abort();
  signal.addEventListener("abort", abort, { once: true });
  let timer = setTimeout(abort, SILENCE);
  try {
    const headers = { Accept: "text/event-stream" };
    const response = await authorizedFetch(apiUrl("events"), { headers, signal: attempt.signal, cache: "no-store" });
    if (!response.ok || !response.body) return;
    const chunks = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new SseParser();
    for (;;) {
      const { done, value } = await chunks.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(abort, SILENCE);
      if (!isLive) refreshSoon();
      isLive = true;
      for (const event of parser.feed(value)) {
        if (CHANGES_LIST.has((JSON.parse(event.data) as StreamEvent).type)) refreshSoon();
      }
    }
  } catch {
    // The next poll tries again.
  } finally {
    isLive = false;
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** A hidden page follows nothing: browsers allow few connections to a server, for all tabs together. */
export function followSessionList(): void {
  let stream: AbortController | null = null;
  const follow = async (): Promise<void> => {
    if (stream || document.hidden || terminalIsOpen.value || access.value !== "granted") return;
    const opened = (stream = new AbortController());
    await followAll(opened.signal);
    if (stream === opened) stream = null;
  };
  const poll = (): void => {
    if (document.hidden || access.value !== "granted") return;
    void follow();
    if (Date.now() - refreshedAt >= (isLive ? LIVE_POLL_INTERVAL : POLL_INTERVAL)) void refreshList();
  };
  void refreshList();
  void follow();
  setInterval(poll, POLL_INTERVAL);
  const pause = (): void => {
    stream?.abort();
    stream = null;
  };
  effect(() => {
    if (terminalIsOpen.value) pause();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) pause();
    else if (access.value === "granted") {
      void refreshList();
      void follow();
    }
  });
}
