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

export function focusComposer(): void {
  document.getElementById("composer")?.focus();
}
