/** Keyboard shortcuts, outside of text fields. */

import { canAct, drawerOpen, nextTheme, overlay, panel, toast } from "./app";
import { current, isDriven } from "./open-session";
import { focusComposer } from "./prompt-draft";
import { openSession, sessionId } from "./route";
import { sessions } from "./session-list";

/** Milliseconds between two presses of Esc that stop the run. */
const DOUBLE_PRESS = 1500;
let escapedAt = 0;
/** The items that are always in the document. */
const RENDERED = 48;
let isHinted = false;

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.("input, textarea, select, [contenteditable]"));
}

function escape(event: KeyboardEvent): void {
  if (drawerOpen.value) drawerOpen.value = false;
  else if (panel.value && !isTyping(event.target)) panel.value = "";
  else if (current.value?.view.value.run && canAct()) {
    const now = Date.now();
    if (now - escapedAt < DOUBLE_PRESS) {
      escapedAt = 0;
      void current.value.request({ type: "cancel" });
    } else {
      escapedAt = now;
      toast("Press Esc again to stop the run.");
    }
  } else if (isTyping(event.target)) (event.target as HTMLElement).blur();
}

function step(by: number): void {
  const list = sessions.value;
  const at = list.findIndex((session) => session.id === sessionId.value);
  const next = list[Math.max(0, Math.min(list.length - 1, at + by))];
  if (next) openSession(next.id);
}

function moveFocus(by: number): void {
  const items = [...document.querySelectorAll<HTMLElement>(".transcript .item")];
  const at = items.findIndex((item) => item === document.activeElement || item.contains(document.activeElement));
  const next = at < 0 ? items.at(-1) : items[at + by];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

const toggle = (name: "todo" | "tree" | "context" | "permissions"): void => {
  panel.value = panel.value === name ? "" : name;
};

function runShortcut(event: KeyboardEvent): boolean {
  const { key } = event;
  switch (key) {
    case "?":
      overlay.value = "help";
      return true;
    case "/":
    case "i":
      focusComposer();
      return true;
    case "n":
      if (canAct()) overlay.value = "new";
      return true;
    case "s":
      drawerOpen.value = true;
      setTimeout(() => document.getElementById("session-search")?.focus(), 30); // a closed drawer takes no focus
      return true;
    case "m":
      if (current.value && !isDriven(current.value) && canAct()) overlay.value = "model";
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
      toggle("permissions");
      return true;
    case "u":
      overlay.value = "usage";
      return true;
    case "d":
      nextTheme();
      return true;
    case "j":
      moveFocus(1);
      return true;
    case "k":
      moveFocus(-1);
      return true;
    case "o":
      document.activeElement?.closest(".item")?.querySelector<HTMLElement>("[aria-expanded], summary")?.click();
      return true;
    case "End":
      document.querySelector(".transcript")?.scrollTo({ top: 1e9 });
      return true;
    default:
      return false;
  }
}

/** Only the items near the window are in the document: the browser does not find the others. */
function hintAtSearch(): void {
  if (isHinted || (current.value?.items.value.length ?? 0) <= RENDERED) return;
  isHinted = true;
  toast("The browser searches only the visible part. Press s to search all messages.");
}

export function installShortcuts(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const isControl = event.ctrlKey || event.metaKey;
    if (isControl && event.key === "f") hintAtSearch();
    let isHandled = true;
    if (isControl && event.key.toLowerCase() === "k") overlay.value = overlay.value === "palette" ? "" : "palette";
    else if (document.querySelector("dialog[open]")) return;
    else if (isControl && event.key === "/") overlay.value = "help";
    else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) step(event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "Escape") escape(event);
    else if (!isControl && !event.altKey && !isTyping(event.target)) isHandled = runShortcut(event);
    else isHandled = false;
    if (isHandled) event.preventDefault();
  });
}
