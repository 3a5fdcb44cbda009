/** What is being written, for each session; it outlives a look at another one. */

import { effect, signal } from "@preact/signals";
import { store, stored } from "./app";
import { sessionId } from "./route";

export const composerText = signal("");
/** How often something was said that begins a run: whoever says it wants to see what comes of it. */
export const timesSent = signal(0);
let kept = "";

effect(() => {
  kept = sessionId.value;
  composerText.value = stored(`draft.${kept}`, "");
});

effect(() => {
  store(`draft.${kept}`, composerText.value);
});

/** What is being written to a session. */
export const draftOf = (session: string): string => (session === sessionId.value ? composerText.value : stored(`draft.${session}`, ""));

/** What could not be sent is a draft again, wherever the person is meanwhile; unless there is another. */
export function draftAgain(session: string, text: string): void {
  if (session === sessionId.value) composerText.value ||= text;
  else if (!stored(`draft.${session}`, "")) store(`draft.${session}`, text);
}

export function focusComposer(): void {
  document.getElementById("composer")?.focus();
}
