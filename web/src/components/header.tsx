/** The header of a session: title, connection, meters, menu. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Connection } from "../api/event-stream";
import { type Panel, attempt, canAct, drawerOpen, logOut, overlay, panel } from "../state/app";
import { save } from "../state/downloads";
import { type OpenSession, isDriven } from "../state/open-session";
import { openSession } from "../state/route";
import { dollars, firstLine, knownCost, shortPath, shortTokens, totalTokens } from "../text/format";
import { type UserItem, plainTextOf } from "../transcript/items";
import { Icon } from "./icons";
import { forkAt } from "./message-actions";

const SIGNS: Partial<Record<Connection, string>> = {
  offline: "Not connected. Retrying…",
  polling: "Connected by polling: the event stream is blocked.",
  paused: "Paused while the page is hidden.",
};

export function MenuButton(): JSX.Element {
  return (
    <button type="button" class="quiet drawer-button" aria-label="Sessions" aria-expanded={drawerOpen.value} onClick={() => { drawerOpen.value = !drawerOpen.value; }}>
      <Icon name="menu" />
    </button>
  );
}

function ConnectionSign({ session }: { session: OpenSession }): JSX.Element | null {
  const title = SIGNS[session.connection.value];
  if (!title) return null;
  return (
    <span class={`connection ${session.connection.value}`} role="status" title={title}>
      <Icon name="offline" size={15} />
      <span class="connection-state">{session.connection.value}</span>
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
  const link = (label: string, format: string): JSX.Element => item(label, "download", () => save(() => api.export(session.id, format)));
  const isOurs = !isDriven(session);
  const canEnd = session.details.value?.agent?.transport;
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
          {isOurs && item("Permissions", "check", () => { panel.value = "permissions"; })}
          {item("Usage of all sessions", "context", () => { overlay.value = "usage"; })}
          {canAct() && item("Rename", "edit", () => { overlay.value = "rename"; })}
          {canAct() && isOurs && item("Model and reasoning", "gear", () => { overlay.value = "model"; })}
          {canAct() && isOurs && item("Summarise earlier messages", "squeeze", () => void session.request({ type: "compact" }))}
          {canAct() && isOurs && item("Fork: continue in a copy", "fork", () => void forkAt(session.view.value.leaf))}
          {parent && item(session.view.value.childOf ? "Open the parent session" : "Open the original session", "open", () => openSession(parent))}
          {link("Save as Markdown", "md")}
          {link("Save as HTML", "html")}
          {link("Save as JSONL", "jsonl")}
          {canAct() && canEnd && item("Stop the agent", "stop", () => void attempt(() => api.stopAgent(session.id)))}
          {item("Log out", "close", () => void logOut())}
          {item("Keyboard shortcuts", "help", () => { overlay.value = "help"; })}
          {canAct() && item("Delete", "trash", () => { overlay.value = "delete"; })}
        </div>
      )}
    </div>
  );
}

export function titleOf(session: OpenSession): string {
  const view = session.view.value;
  const first = view.items.find((item) => item.kind === "user" && !item.hidden) as UserItem | undefined;
  return view.title || session.details.value?.title || (first && firstLine(plainTextOf(first.content), 80)) || "New session";
}

/** `children` replace the controls of our own agent. */
export function Header({ session, children }: { session: OpenSession; children?: ComponentChildren }): JSX.Element {
  const { todo, cwd } = session.view.value;
  const done = todo.filter((item) => item.status === "done" || item.status === "dropped").length;
  return (
    <header class="header">
      <MenuButton />
      <div class="heading">
        <h1 title={titleOf(session)}>
          <button type="button" class="quiet" disabled={!canAct()} onClick={() => { overlay.value = "rename"; }}>
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

const CIRCUMFERENCE = 2 * Math.PI * 7;

export function contextOf(session: OpenSession): { used: number; window: number } {
  const context = session.details.value?.context;
  return { used: session.view.value.context || context?.used || 0, window: context?.window ?? 0 };
}

function Ring({ share }: { share: number }): JSX.Element {
  return (
    <svg class={`ring${share > 0.85 ? " full" : share > 0.65 ? " high" : ""}`} width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
      <circle cx="9" cy="9" r="7" class="track" />
      <circle cx="9" cy="9" r="7" class="used" stroke-dasharray={`${CIRCUMFERENCE * Math.min(1, share)} ${CIRCUMFERENCE}`} transform="rotate(-90 9 9)" />
    </svg>
  );
}

export function Meters({ session }: { session: OpenSession }): JSX.Element {
  const { used, window } = contextOf(session);
  const { usage, childrenUsage } = session.view.value;
  const tokens = totalTokens(usage) + childrenUsage.reduce((sum, totals) => sum + totalTokens(totals.usage), 0);
  const children = childrenUsage.reduce((sum, totals) => sum + knownCost(totals), 0);
  const cost = usage.cost == null ? null : usage.cost + children;
  const share = window ? used / window : 0;
  const contextText = window ? `Context: ${shortTokens(used)} of ${shortTokens(window)} tokens` : `Context: ${shortTokens(used)} tokens`;
  const usageText = `${shortTokens(tokens)} tokens${cost === null ? "" : `, ${dollars(cost)}`} in this session`;
  return (
    <button type="button" class={window ? "meters quiet has-window" : "meters quiet"} aria-pressed={panel.value === "context"} title={`${contextText}\n${usageText}`} onClick={() => { panel.value = panel.value === "context" ? "" : "context"; }}>
      <span class="visually-hidden">Context and cost. {contextText}.</span>
      {window > 0 && <Ring share={share} />}
      {window > 0 && <span class="share">{Math.round(share * 100)} %</span>}
      <span class="tokens">{shortTokens(tokens)} tokens</span>
      {cost !== null && <span class="cost">{dollars(cost)}</span>}
    </button>
  );
}
