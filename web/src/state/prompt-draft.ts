/** The prompt that is being written in each session. It survives a switch to another session. */

import { effect, signal } from "@preact/signals";
import { store, stored } from "./app";
import { sessionId } from "./route";

export const composerText = signal("");
/** Counts the prompts that start a run: the list then scrolls to its end. */
export const promptsSent = signal(0);
let storedSession = "";

effect(() => {
  storedSession = sessionId.value;
  composerText.value = stored(`draft.${storedSession}`, "");
});

effect(() => {
  store(`draft.${storedSession}`, composerText.value);
});

export const draftOf = (session: string): string => (session === sessionId.value ? composerText.value : stored(`draft.${session}`, ""));

/** Restores a prompt that could not be sent, unless the session has another draft. */
export function restoreDraft(session: string, text: string): void {
  if (session === sessionId.value) composerText.value ||= text;
  else if (!stored(`draft.${session}`, "")) store(`draft.${session}`, text);
}

export function focusComposer(): void {
  document.getElementById("composer")?.focus();
}
