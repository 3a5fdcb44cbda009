/** The command palette: all actions and sessions, by a few letters. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { canAct, drawerOpen, logOut, nextTheme, overlay, panel } from "../state/app";
import { current, isDriven } from "../state/open-session";
import { openSession } from "../state/route";
import { sessions } from "../state/session-list";
import { firstLine } from "../text/format";
import { Dialog } from "./dialog";
import { forkAt } from "./message-actions";
import { importSession } from "./session-import";

interface Action {
  name: string;
  hint: string;
  act: () => void;
}

function actions(): Action[] {
  const session = current.value;
  const list: Action[] = [{ name: "Switch theme", hint: "", act: nextTheme }, { name: "Keyboard shortcuts", hint: "?", act: () => { overlay.value = "help"; } }];
  list.push({ name: "Usage of all sessions", hint: "u", act: () => { overlay.value = "usage"; } });
  if (canAct()) list.push({ name: "Import a session", hint: "", act: () => importSession(session?.view.value.cwd ?? "") });
  if (canAct()) list.unshift({ name: "New session", hint: "n", act: () => { overlay.value = "new"; } });
  list.push({ name: "Log out", hint: "", act: () => void logOut() });
  const isOurs = session !== null && !isDriven(session);
  if (isOurs) {
    list.push({ name: "Branches", hint: "b", act: () => { panel.value = "tree"; } });
    list.push({ name: "Context and cost", hint: "c", act: () => { panel.value = "context"; } });
    list.push({ name: "To do", hint: "t", act: () => { panel.value = "todo"; } });
    list.push({ name: "Permissions", hint: "p", act: () => { panel.value = "permissions"; } });
  }
  if (session && canAct()) {
    if (session.view.value.run) list.unshift({ name: "Stop", hint: "Esc Esc", act: () => void session.request({ type: "cancel" }) });
    list.push({ name: "Rename", hint: "", act: () => { overlay.value = "rename"; } });
    if (isOurs) {
      list.push({ name: "Model and reasoning", hint: "m", act: () => { overlay.value = "model"; } });
      list.push({ name: "Fork: continue in a copy", hint: "", act: () => void forkAt(session.view.value.leaf) });
      list.push({ name: "Summarise earlier messages", hint: "", act: () => void session.request({ type: "compact" }) });
    }
    list.push({ name: "Delete this session", hint: "", act: () => { overlay.value = "delete"; } });
  }
  return list;
}

function find(query: string): Action[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const all: Action[] = [
    ...actions(),
    ...sessions.value.map(({ id, title, preview, cwd }) => ({ name: firstLine(title || preview || "New session", 80), hint: cwd, act: () => { openSession(id); drawerOpen.value = false; } })),
  ];
  return all.filter(({ name, hint }) => words.every((word) => `${name} ${hint}`.toLowerCase().includes(word))).slice(0, 40);
}

export function Palette(): JSX.Element {
  const [query, setQuery] = useState("");
  const [marked, mark] = useState(0);
  const matches = find(query);
  const at = Math.min(marked, Math.max(0, matches.length - 1));
  const run = (action: Action | undefined): void => {
    overlay.value = "";
    action?.act();
  };
  const key = (event: JSX.TargetedKeyboardEvent<HTMLInputElement>): void => {
    // Enter may come before the last letters are rendered: it applies to the text in the field.
    const typed = event.currentTarget.value;
    if (event.key === "Enter") run(typed === query ? matches[at] : find(typed)[0]);
    else if (event.key === "ArrowDown") mark((at + 1) % Math.max(1, matches.length));
    else if (event.key === "ArrowUp") mark((at + matches.length - 1) % Math.max(1, matches.length));
    else return;
    event.preventDefault();
    document.getElementById(`palette-${at}`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog title="Command palette" onClose={() => { overlay.value = ""; }} bare>
      <input type="text" autofocus role="combobox" aria-expanded="true" aria-controls="palette" aria-activedescendant={`palette-${at}`} aria-label="Command palette" placeholder="Find an action or a session…" value={query} onInput={(event) => { setQuery(event.currentTarget.value); mark(0); }} onKeyDown={key} />
      <ul id="palette" role="listbox" class="palette" aria-label="Results">
        {matches.map((action, index) => (
          <li key={index} id={`palette-${index}`} role="option" aria-selected={index === at} onClick={() => run(action)} onMouseMove={() => mark(index)}>
            <span>{action.name}</span>
            <small>{action.hint}</small>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
