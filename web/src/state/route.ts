/** The session in the address of the page. */

import { signal } from "@preact/signals";
import { ROOT } from "../api/client";

const BASE = ROOT.pathname;

function sessionIn(path: string): string {
  const match = /^s\/([^/]+)/.exec(path.slice(BASE.length));
  return match?.[1] ? decodeURIComponent(match[1]) : "";
}

export const sessionId = signal(sessionIn(location.pathname));
/** The fact to scroll to, from a search result. */
export const targetFact = signal(0);

export function addressOf(session: string): string {
  return session ? `${BASE}s/${encodeURIComponent(session)}` : BASE;
}

export function openSession(session: string, fact = 0): void {
  targetFact.value = fact;
  if (session === sessionId.value) return;
  history.pushState(null, "", addressOf(session));
  sessionId.value = session;
}

addEventListener("popstate", () => {
  sessionId.value = sessionIn(location.pathname);
});
