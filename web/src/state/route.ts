/** Where the page is: at a session, or at none. */

import { signal } from "@preact/signals";
import { ROOT } from "../api/root";

const BASE = ROOT.pathname;

function sessionIn(path: string): string {
  const found = /^s\/([^/]+)/.exec(path.slice(BASE.length));
  return found?.[1] ? decodeURIComponent(found[1]) : "";
}

export const sessionId = signal(sessionIn(location.pathname));
/** The fact that a search has found, to be scrolled to. */
export const wantedFact = signal(0);

export function addressOf(session: string): string {
  return session ? `${BASE}s/${encodeURIComponent(session)}` : BASE;
}

export function goTo(session: string, fact = 0): void {
  wantedFact.value = fact;
  if (session === sessionId.value) return;
  history.pushState(null, "", addressOf(session));
  sessionId.value = session;
}

addEventListener("popstate", () => {
  sessionId.value = sessionIn(location.pathname);
});
