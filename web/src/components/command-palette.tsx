/** Everything there is to do, and all sessions, found by a few letters. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { firstLine } from "../text/format";
import { drawerOpen, mayAct, nextTheme, overlay, panel } from "../state/app";
import { current, isDriven } from "../state/open-session";
import { goTo } from "../state/route";
import { sessions } from "../state/session-list";
import { Dialog } from "./dialog";
import { chooseAndImport } from "./session-import";
import { forkAt } from "./message-actions";

interface Action {
  name: string;
  about: string;
  act: () => void;
}

function actions(): Action[] {
  const session = current.value;
  const list: Action[] = [{ name: "Colours: dark, light, as the system", about: "", act: nextTheme }, { name: "Keys", about: "?", act: () => { overlay.value = "help"; } }];
  list.push({ name: "Usage of all sessions", about: "u", act: () => { overlay.value = "usage"; } });
  if (mayAct()) list.push({ name: "Import a session", about: "", act: () => chooseAndImport(session?.view.value.cwd ?? "") });
  if (mayAct()) list.unshift({ name: "New session", about: "n", act: () => { overlay.value = "new"; } });
  const isOurs = session !== null && !isDriven(session);
  if (isOurs) {
    list.push({ name: "Branches", about: "b", act: () => { panel.value = "tree"; } });
    list.push({ name: "Context and cost", about: "c", act: () => { panel.value = "context"; } });
    list.push({ name: "To do", about: "t", act: () => { panel.value = "todo"; } });
    list.push({ name: "Permissions", about: "p", act: () => { panel.value = "rules"; } });
  }
  if (session && mayAct()) {
    if (session.view.value.run) list.unshift({ name: "Stop", about: "Esc Esc", act: () => void session.request({ type: "cancel" }) });
    list.push({ name: "Rename", about: "", act: () => { overlay.value = "rename"; } });
    if (isOurs) {
      list.push({ name: "Model and reasoning", about: "m", act: () => { overlay.value = "model"; } });
      list.push({ name: "Fork: go on in a copy", about: "", act: () => void forkAt(session.view.value.leaf) });
      list.push({ name: "Summarise earlier messages", about: "", act: () => void session.request({ type: "compact" }) });
    }
    list.push({ name: "Delete this session", about: "", act: () => { overlay.value = "delete"; } });
  }
  return list;
}

function find(query: string): Action[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const all: Action[] = [
    ...actions(),
    ...sessions.value.map((one) => ({ name: firstLine(one.title || one.preview || "New session", 80), about: one.cwd, act: () => { goTo(one.id); drawerOpen.value = false; } })),
  ];
  return all.filter((one) => words.every((word) => `${one.name} ${one.about}`.toLowerCase().includes(word))).slice(0, 40);
}

export function Palette(): JSX.Element {
  const [query, setQuery] = useState("");
  const [marked, mark] = useState(0);
  const found = find(query);
  const at = Math.min(marked, Math.max(0, found.length - 1));
  const run = (one: Action | undefined): void => {
    overlay.value = "";
    one?.act();
  };
  const key = (event: JSX.TargetedKeyboardEvent<HTMLInputElement>): void => {
    // Enter may come before what was typed is drawn: it means what stands in the field.
    const typed = event.currentTarget.value;
    if (event.key === "Enter") run(typed === query ? found[at] : find(typed)[0]);
    else if (event.key === "ArrowDown") mark((at + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") mark((at + found.length - 1) % Math.max(1, found.length));
    else return;
    event.preventDefault();
    document.getElementById(`palette-${at}`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog title="What to do" onClose={() => { overlay.value = ""; }} bare>
      <input type="text" autofocus role="combobox" aria-expanded="true" aria-controls="palette" aria-activedescendant={`palette-${at}`} aria-label="What to do" placeholder="Find an action or a session…" value={query} onInput={(event) => { setQuery(event.currentTarget.value); mark(0); }} onKeyDown={key} />
      <ul id="palette" role="listbox" class="palette" aria-label="Found">
        {found.map((one, place) => (
          <li key={place} id={`palette-${place}`} role="option" aria-selected={place === at} onClick={() => run(one)} onMouseMove={() => mark(place)}>
            <span>{one.name}</span>
            <small>{one.about}</small>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
