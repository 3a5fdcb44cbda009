/** Keys that work wherever nobody types. */

import { drawerOpen, mayAct, nextTheme, overlay, panel, toast } from "./app";
import { focusComposer } from "./prompt-draft";
import { current, isDriven } from "./open-session";
import { goTo, sessionId } from "./route";
import { sessions } from "./session-list";

const TWICE = 1500;
let escapedAt = 0;
/** So many blocks are drawn for certain. */
const DRAWN = 48;
let isHinted = false;

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.("input, textarea, select, [contenteditable]"));
}

function escape(event: KeyboardEvent): void {
  if (drawerOpen.value) drawerOpen.value = false;
  else if (panel.value && !isTyping(event.target)) panel.value = "";
  else if (current.value?.view.value.run && mayAct()) {
    const now = Date.now();
    if (now - escapedAt < TWICE) {
      escapedAt = 0;
      void current.value.request({ type: "cancel" });
    } else {
      escapedAt = now;
      toast("Esc once more stops the run.");
    }
  } else if (isTyping(event.target)) (event.target as HTMLElement).blur();
}

function step(by: number): void {
  const list = sessions.value;
  const at = list.findIndex((one) => one.id === sessionId.value);
  const next = list[Math.max(0, Math.min(list.length - 1, at + by))];
  if (next) goTo(next.id);
}

function moveBlock(by: number): void {
  const blocks = [...document.querySelectorAll<HTMLElement>(".transcript .block")];
  const at = blocks.findIndex((block) => block === document.activeElement || block.contains(document.activeElement));
  const next = at < 0 ? blocks.at(-1) : blocks[at + by];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

function answer(key: string): boolean {
  if (!mayAct()) return false;
  const options = [...document.querySelectorAll<HTMLButtonElement>(".question .option")];
  const found = options.find((one) => one.dataset["key"] === key) ?? options[Number(key) - 1];
  found?.click();
  return found !== undefined;
}

const toggle = (name: "todo" | "tree" | "context" | "rules"): void => {
  panel.value = panel.value === name ? "" : name;
};

function plain(event: KeyboardEvent): boolean {
  const { key } = event;
  if (/^[ynspu1-9]$/.test(key) && answer(key)) return true;
  switch (key) {
    case "?":
      overlay.value = "help";
      return true;
    case "/":
    case "i":
      focusComposer();
      return true;
    case "n":
      if (mayAct()) overlay.value = "new";
      return true;
    case "s":
      drawerOpen.value = true;
      setTimeout(() => document.getElementById("session-search")?.focus(), 30); // a drawer that is shut takes no focus
      return true;
    case "m":
      if (current.value && !isDriven(current.value) && mayAct()) overlay.value = "model";
      return true;
    case "t":
      toggle("todo");
      return true;
    case "b":
      toggle("tree");
      return true;
    case "c":
      toggle("context");
      return true;
    case "p":
      toggle("rules");
      return true;
    case "u":
      overlay.value = "usage";
      return true;
    case "d":
      nextTheme();
      return true;
    case "j":
      moveBlock(1);
      return true;
    case "k":
      moveBlock(-1);
      return true;
    case "o":
      document.activeElement?.closest(".block")?.querySelector<HTMLElement>("[aria-expanded], summary")?.click();
      return true;
    case "End":
      document.querySelector(".transcript")?.scrollTo({ top: 1e9 });
      return true;
    default:
      return false;
  }
}

/** Only what is near the window is drawn, so the browser does not find the rest. */
function hintAtSearch(): void {
  if (isHinted || (current.value?.blocks.value.length ?? 0) <= DRAWN) return;
  isHinted = true;
  toast("The browser finds what is near. The search on the left (s) finds all that was said.");
}

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const isControl = event.ctrlKey || event.metaKey;
    if (isControl && event.key === "f") hintAtSearch();
    let taken = true;
    if (isControl && event.key.toLowerCase() === "k") overlay.value = overlay.value === "palette" ? "" : "palette";
    else if (document.querySelector("dialog[open]")) return;
    else if (isControl && event.key === "/") overlay.value = "help";
    else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) step(event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "Escape") escape(event);
    else if (!isControl && !event.altKey && !isTyping(event.target)) taken = plain(event);
    else taken = false;
    if (taken) event.preventDefault();
  });
}
