/** The line above a conversation: its name, how it stands, what can be opened beside it. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { firstLine, shortPath } from "../text/format";
import { type Panel, attempt, drawerOpen, mayAct, overlay, panel } from "../state/app";
import { type OpenSession, isDriven } from "../state/open-session";
import { goTo } from "../state/route";
import { api } from "../api/client";
import type { Connection } from "../api/event-stream";
import { Icon } from "./icons";
import { forkAt } from "./message-actions";
import { Meters } from "./meters";
import { textOf } from "./call-body";

const SIGNS: Partial<Record<Connection, string>> = {
  offline: "Not connected. It is tried again.",
  polling: "Connected by asking again and again: something holds streams back.",
  resting: "Rests while the page is hidden.",
};

export function MenuButton(): JSX.Element {
  return (
    <button type="button" class="quiet drawer-button" aria-label="Sessions" aria-expanded={drawerOpen.value} onClick={() => { drawerOpen.value = !drawerOpen.value; }}>
      <Icon name="menu" />
    </button>
  );
}

function ConnectionSign({ session }: { session: OpenSession }): JSX.Element | null {
  const said = SIGNS[session.connection.value];
  if (!said) return null;
  return (
    <span class={`connection ${session.connection.value}`} role="status" title={said}>
      <Icon name="offline" size={15} />
      <span class="connection-word">{session.connection.value === "offline" ? "offline" : session.connection.value}</span>
    </span>
  );
}

function Toggle({ name, icon, label, mark }: { name: Panel; icon: string; label: string; mark?: string }): JSX.Element {
  const isOn = panel.value === name;
  return (
    <button type="button" class="quiet toggle" aria-pressed={isOn} title={label} onClick={() => { panel.value = isOn ? "" : name; }}>
      <Icon name={icon} />
      <span class="visually-hidden">{label}</span>
      {mark && <span class="mark">{mark}</span>}
    </button>
  );
}

function More({ session }: { session: OpenSession }): JSX.Element {
  const [open, setOpen] = useState(false);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    element.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const outside = (event: Event): void => {
      if (!element.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const key = (event: KeyboardEvent): void => {
    const items = [...(element.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") {
      setOpen(false);
      element.current?.querySelector("button")?.focus();
    } else if (event.key === "ArrowDown") items[(at + 1) % items.length]?.focus();
    else if (event.key === "ArrowUp") items.at(at - 1)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const item = (label: string, icon: string, act: () => void): JSX.Element => (
    <button type="button" role="menuitem" onClick={() => { setOpen(false); act(); }}>
      <Icon name={icon} size={16} /> {label}
    </button>
  );
  const link = (label: string, format: string): JSX.Element => (
    <a role="menuitem" href={api.exportUrl(session.id, format)} download onClick={() => setOpen(false)}>
      <Icon name="download" size={16} /> {label}
    </a>
  );
  const isOurs = !isDriven(session);
  const canEnd = session.shown.value?.agent?.transport;
  const parent = session.view.value.childOf || session.view.value.forkedFrom;
  return (
    <div class="more-menu" ref={element} onKeyDown={key}>
      <button type="button" class="quiet" aria-label="More" aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="more" />
      </button>
      {open && (
        <div role="menu" class="menu">
          {isOurs && item("Branches", "tree", () => { panel.value = "tree"; })}
          {session.view.value.todo.length > 0 && item("To do", "todo", () => { panel.value = "todo"; })}
          {isOurs && item("Permissions", "check", () => { panel.value = "rules"; })}
          {item("Usage of all sessions", "context", () => { overlay.value = "usage"; })}
          {mayAct() && item("Rename", "edit", () => { overlay.value = "rename"; })}
          {mayAct() && isOurs && item("Model and reasoning", "gear", () => { overlay.value = "model"; })}
          {mayAct() && isOurs && item("Summarise earlier messages", "squeeze", () => void session.request({ type: "compact" }))}
          {mayAct() && isOurs && item("Fork: go on in a copy", "fork", () => void forkAt(session.view.value.leaf))}
          {parent && item(session.view.value.childOf ? "Open its parent" : "Open what it was forked from", "open", () => goTo(parent))}
          {link("Save as Markdown", "md")}
          {link("Save as HTML", "html")}
          {link("Save as JSONL", "jsonl")}
          {mayAct() && canEnd && item("End the agent", "stop", () => void attempt(() => api.endAgent(session.id)))}
          {item("Keys", "help", () => { overlay.value = "help"; })}
          {mayAct() && item("Delete", "trash", () => { overlay.value = "delete"; })}
        </div>
      )}
    </div>
  );
}

export function titleOf(session: OpenSession): string {
  const view = session.view.value;
  const first = view.blocks.find((block) => block.kind === "user");
  return view.title || session.shown.value?.title || (first?.kind === "user" && firstLine(textOf(first.content), 80)) || "New session";
}

/** `children` stand in the place of what concerns our own agent. */
export function Header({ session, children }: { session: OpenSession; children?: ComponentChildren }): JSX.Element {
  const { todo, cwd } = session.view.value;
  const done = todo.filter((one) => one.status === "done" || one.status === "dropped").length;
  return (
    <header class="header">
      <MenuButton />
      <div class="heading">
        <h1 title={titleOf(session)}>
          <button type="button" class="quiet" disabled={!mayAct()} onClick={() => { overlay.value = "rename"; }}>
            {titleOf(session)}
          </button>
        </h1>
        <span class="cwd" title={cwd}>
          {shortPath(cwd)}
        </span>
      </div>
      <ConnectionSign session={session} />
      {children ?? (
        <>
          <Meters session={session} />
          <span class="toggles">
            {todo.length > 0 && <Toggle name="todo" icon="todo" label="To do" mark={`${done}/${todo.length}`} />}
            <Toggle name="tree" icon="tree" label="Branches" />
          </span>
        </>
      )}
      <More session={session} />
    </header>
  );
}
