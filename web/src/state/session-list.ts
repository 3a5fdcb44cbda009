/** The list of sessions: looked at again while the page is seen, found by title and by what was said. */

import { signal } from "@preact/signals";
import { api } from "../wire/api";
import type { OpenQuestion, SearchHit, SessionSummary } from "../wire/types";
import { access } from "./app";

export const sessions = signal<SessionSummary[]>([]);
export const hits = signal<SearchHit[]>([]);
export const listQuery = signal("");
export const nextPage = signal("");
export const asked = signal<OpenQuestion[]>([]);
export const listState = signal<"loading" | "ready" | "failed">("loading");

const EVERY = 6000;
let turn = 0;
let pages = 1;

export async function refreshList(): Promise<void> {
  const mine = (turn += 1);
  const query = listQuery.value.trim();
  try {
    const [found, said, questions] = await Promise.all([
      api.sessions(query, "", 60 * pages),
      query.length > 1 ? api.search(query) : Promise.resolve({ hits: [] }),
      api.questions().catch(() => ({ questions: asked.value })),
    ]);
    if (mine !== turn) return;
    sessions.value = found.sessions;
    nextPage.value = found.next;
    hits.value = said.hits;
    asked.value = questions.questions;
    listState.value = "ready";
  } catch {
    if (mine === turn && listState.value === "loading") listState.value = "failed";
  }
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

export function keepListFresh(): void {
  void refreshList();
  setInterval(() => {
    if (access.value === "granted" && !document.hidden) void refreshList();
  }, EVERY);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && access.value === "granted") void refreshList();
  });
}
