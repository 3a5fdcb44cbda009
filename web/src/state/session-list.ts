/** The list of sessions: kept live while the page is seen, found by title and by what was said. */

import { effect, signal } from "@preact/signals";
import { withoutUploads } from "../text/parts-of-prompt";
import { api, apiUrl } from "../api/client";
import { EventReader } from "../api/sse";
import type { Frame, OpenQuestion, SearchHit, SessionSummary } from "../api/types";
import { access } from "./app";

export const sessions = signal<SessionSummary[]>([]);
export const hits = signal<SearchHit[]>([]);
export const listQuery = signal("");
export const nextPage = signal("");
export const asked = signal<OpenQuestion[]>([]);
/** A terminal is a connection more: as long as one is open, the list is looked at, and not followed. */
export const terminalIsOpen = signal(false);
export const listState = signal<"loading" | "ready" | "failed">("loading");

/** Facts that change a row, or what is asked. */
const STANDING = new Set(["session_started", "session_listed", "session_renamed", "run_started", "run_waiting", "run_resumed", "run_ended", "question_asked", "question_answered"]);
/** Milliseconds between two looks at most, where the stream does not get through, and where it does. */
const EVERY = 6000;
const EVERY_ALONGSIDE = 60_000;
/** A stream that says nothing for so long is held back by something, or dead. */
const SILENCE = 40_000;
const TOGETHER = 250;

let turn = 0;
let pages = 1;
let isLive = false;
let lookedAt = 0;
let soon: ReturnType<typeof setTimeout> | undefined;

export async function refreshList(): Promise<void> {
  const mine = (turn += 1);
  const query = listQuery.value.trim();
  lookedAt = Date.now();
  try {
    const [found, said, questions] = await Promise.all([
      api.sessions(query, "", 60 * pages),
      query.length > 1 ? api.search(query) : Promise.resolve({ hits: [] }),
      api.questions().catch(() => ({ questions: asked.value })),
    ]);
    if (mine !== turn) return;
    sessions.value = found.sessions.map((one) => (one.preview ? { ...one, preview: withoutUploads(one.preview) } : one));
    nextPage.value = found.next;
    hits.value = said.hits;
    asked.value = questions.questions;
    listState.value = "ready";
  } catch {
    if (mine === turn && listState.value === "loading") listState.value = "failed";
  }
}

function refreshSoon(): void {
  soon ??= setTimeout(() => {
    soon = undefined;
    void refreshList();
  }, TOGETHER);
}

export function loadMore(): void {
  pages += 1;
  void refreshList();
}

let typing: ReturnType<typeof setTimeout> | undefined;

export function searchFor(text: string): void {
  listQuery.value = text;
  clearTimeout(typing);
  typing = setTimeout(() => void refreshList(), 180);
}

/** Follows all sessions until it ends. What was missed is seen by looking at the list anew. */
async function followAll(signal: AbortSignal): Promise<void> {
  const attempt = new AbortController();
  const giveUp = (): void => attempt.abort();
  signal.addEventListener("abort", giveUp, { once: true });
  let timer = setTimeout(giveUp, SILENCE);
  try {
    const headers = { Accept: "text/event-stream" };
    const answer = await fetch(apiUrl("events"), { headers, signal: attempt.signal, credentials: "same-origin", cache: "no-store" });
    if (!answer.ok || !answer.body) return;
    const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventReader();
    for (;;) {
      const { done, value } = await pieces.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(giveUp, SILENCE);
      if (!isLive) refreshSoon();
      isLive = true;
      for (const event of events.feed(value)) {
        if (STANDING.has((JSON.parse(event.data) as Frame).type)) refreshSoon();
      }
    }
  } catch {
    // It is tried again, and the list looked at meanwhile.
  } finally {
    isLive = false;
    clearTimeout(timer);
    signal.removeEventListener("abort", giveUp);
  }
}

/** A page that is not seen follows nothing: browsers allow a server few connections, for all tabs together. */
export function keepListFresh(): void {
  let following: AbortController | null = null;
  const follow = async (): Promise<void> => {
    if (following || document.hidden || terminalIsOpen.value || access.value !== "granted") return;
    const mine = (following = new AbortController());
    await followAll(mine.signal);
    if (following === mine) following = null;
  };
  const look = (): void => {
    if (document.hidden || access.value !== "granted") return;
    void follow();
    if (Date.now() - lookedAt >= (isLive ? EVERY_ALONGSIDE : EVERY)) void refreshList();
  };
  void refreshList();
  void follow();
  setInterval(look, EVERY);
  const rest = (): void => {
    following?.abort();
    following = null;
  };
  effect(() => {
    if (terminalIsOpen.value) rest();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) rest();
    else if (access.value === "granted") {
      void refreshList();
      void follow();
    }
  });
}
