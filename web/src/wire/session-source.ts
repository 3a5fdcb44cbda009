/** Where the facts of one session come from. */

import { Problem, apiUrl, get } from "./api";
import type { Source } from "./following";
import type { Frame } from "./types";

const WAIT = 25;

export function sessionSource(session: string): Source {
  const path = `sessions/${encodeURIComponent(session)}/events`;
  return {
    stream: (after, signal) => {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (after) headers["Last-Event-ID"] = String(after);
      return fetch(apiUrl(`${path}?after=${after}`), { headers, signal, credentials: "same-origin", cache: "no-store" });
    },
    poll: async (after, signal) => {
      try {
        return await get<{ facts: Frame[]; last_seq: number; has_more: boolean }>(`${path}?after=${after}&wait=${WAIT}`, { signal });
      } catch (error) {
        if (error instanceof Problem && error.status === 0) throw new Error("offline");
        throw error;
      }
    },
  };
}
