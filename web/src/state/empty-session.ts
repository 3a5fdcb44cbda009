/** Empty sessions that this page created: one is reused instead of adding another empty row to the list. */

import { api } from "../api/client";
import type { SessionDetails } from "../api/types";
import { store, stored } from "./app";
import { attachmentsOf } from "./attachments";
import { draftOf } from "./prompt-draft";

/** Milliseconds after which no other tab is expected to use it. */
const ABANDONED_AFTER = 3_600_000;
const inThisTab = new Set<string>();

export function rememberEmptySession(cwd: string, session: string): void {
  inThisTab.add(session);
  store(`begun.${cwd}`, session);
}

export async function findEmptySession(cwd: string): Promise<string> {
  const id = stored(`begun.${cwd}`, "");
  if (!id || draftOf(id) || attachmentsOf(id).length) return "";
  try {
    const session = await api.session(id);
    const isFree = inThisTab.has(id) || Date.now() - session.created_ms > ABANDONED_AFTER;
    return isFree && isEmpty(session) ? id : "";
  } catch {
    return ""; // it was deleted
  }
}

const isEmpty = ({ last_seq, waiting, driver = "agent" }: SessionDetails): boolean => last_seq === 1 && !waiting?.length && driver === "agent";
