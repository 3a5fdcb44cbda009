/** Sessions that were begun here. One that is still as it was is given again, in place of another empty row in the list. */

import { api } from "../api/client";
import type { SessionShown } from "../api/types";
import { attachedTo } from "./attachments";
import { draftOf } from "./prompt-draft";
import { store, stored } from "./app";

/** Milliseconds after which nobody in another tab is about to write in it. */
const LEFT = 3_600_000;
const inThisTab = new Set<string>();

export function rememberBegun(cwd: string, session: string): void {
  inThisTab.add(session);
  store(`begun.${cwd}`, session);
}

export async function begunAndLeft(cwd: string): Promise<string> {
  const id = stored(`begun.${cwd}`, "");
  if (!id || draftOf(id) || attachedTo(id).length) return "";
  try {
    const shown = await api.show(id);
    const isLeft = inThisTab.has(id) || Date.now() - shown.created_ms > LEFT;
    return isLeft && isUntouched(shown) ? id : "";
  } catch {
    return ""; // it was deleted
  }
}

const isUntouched = (shown: SessionShown): boolean => shown.last_seq === 1 && !shown.waiting?.length && (shown.driver ?? "agent") === "agent";
