/** Where the facts of one session come from. */

import { apiUrl } from "./client";
import { type Page, type Source, checked } from "./event-stream";

const WAIT = 25;

export function sessionSource(session: string): Source {
  const path = `sessions/${encodeURIComponent(session)}/events`;
  const ask = (query: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> =>
    fetch(apiUrl(`${path}?${query}`), { headers, signal, credentials: "same-origin", cache: "no-store" });
  return {
    stream: (after, signal) => {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (after) headers["Last-Event-ID"] = String(after);
      return ask(`after=${after}`, headers, signal);
    },
    poll: async (after, signal, waits) => {
      const answer = checked(await ask(`after=${after}&wait=${waits ? WAIT : 0}`, { Accept: "application/json" }, signal));
      return (await answer.json()) as Page;
    },
  };
}
