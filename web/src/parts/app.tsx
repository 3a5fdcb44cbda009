/** The page: the sessions, the one that is looked at, and what lies over it. */

import { effect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { access, announcement, dismiss, drawerOpen, me, mayAct, overlay, panel, toasts } from "../state/app";
import { attach } from "../state/attachments";
import { OpenSession, current } from "../state/open-session";
import { sessionId } from "../state/route";
import { asked, sessions } from "../state/session-list";
import { Dock } from "./dock";
import { Header, MenuButton, titleOf } from "./header";
import { Icon } from "./icons";
import { Login } from "./login";
import { NoModel } from "./no-model";
import { Overlays } from "./overlays";
import { SidePanel } from "./panels";
import { PromptDialog } from "./prompt-dialog";
import { Mark, Sidebar } from "./sidebar";
import { Transcript } from "./transcript";
import { Widgets } from "./widgets";

/** The session of the address is the one that is open. */
export function followAddress(): void {
  effect(() => {
    const id = access.value === "granted" ? sessionId.value : "";
    const before = current.peek();
    if (before?.id === id) return;
    before?.close();
    const next = id ? new OpenSession(id) : null;
    current.value = next;
    next?.open();
  });
  effect(() => {
    const session = current.value;
    const count = asked.value.length;
    const sign = count ? `(${count}) ` : session?.view.value.run ? "● " : "";
    document.title = session ? `${sign}${titleOf(session).slice(0, 60)} · Ostler` : `${sign}Ostler`;
  });
}

function Welcome(): JSX.Element {
  return (
    <div class="main">
      <header class="header">
        <MenuButton />
        <div class="heading" />
      </header>
      <div class="welcome">
        <Mark />
        <h1>Ostler</h1>
        <p>{sessions.value.length ? "Choose a session, or begin one." : "Begin a session, and say what is to be done."}</p>
        <button type="button" class="primary" disabled={!mayAct()} onClick={() => { overlay.value = "new"; }}>
          New session
        </button>
        <button type="button" class="quiet" onClick={() => { overlay.value = "usage"; }}>
          Usage of all sessions
        </button>
        <NoModel cwd="" />
        <p class="small-print">
          <kbd>Ctrl</kbd> <kbd>K</kbd> finds everything, <kbd>?</kbd> shows the keys · version {me.value?.version}
        </p>
      </div>
    </div>
  );
}

function Main({ session }: { session: OpenSession }): JSX.Element {
  if (session.missing.value) {
    return (
      <div class="main">
        <header class="header">
          <MenuButton />
          <div class="heading" />
        </header>
        <div class="welcome">
          <h1>There is no such session</h1>
          <p>It may have been deleted.</p>
        </div>
      </div>
    );
  }
  const drop = (event: DragEvent): void => {
    const files = event.dataTransfer?.files;
    document.body.classList.remove("dropping");
    if (!files?.length) return;
    event.preventDefault();
    if (mayAct()) attach(files);
  };
  const over = (event: DragEvent): void => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  };
  const leave = (event: DragEvent): void => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  };
  return (
    <main class="main" onDragOver={over} onDrop={drop} onDragLeave={leave}>
      <Header session={session} />
      <Widgets session={session} place="header" />
      <Transcript key={session.id} session={session} />
      <Dock session={session} />
      <div class="drop-sign" aria-hidden="true">
        <Icon name="attach" size={28} /> Drop to attach
      </div>
    </main>
  );
}

function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status">
      {toasts.value.map((one) => (
        <div key={one.id} class={`toast ${one.level}`}>
          <span>{one.text}</span>
          <button type="button" class="quiet small" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
            <Icon name="close" size={14} />
          </button>
        </div>
      ))}
    </div>
  );
}

export function App(): JSX.Element {
  const session = current.value;
  useEffect(() => {
    document.body.classList.toggle("drawer-open", drawerOpen.value);
  }, [drawerOpen.value]);
  if (access.value === "login") return <Login />;
  if (access.value !== "granted") {
    return (
      <main class="login">
        <p role="status">{access.value === "offline" ? "The server cannot be reached. It is tried again." : ""}</p>
      </main>
    );
  }
  return (
    <>
      <a class="skip" href="#composer" onClick={(event) => { event.preventDefault(); document.getElementById("composer")?.focus(); }}>
        Skip to the message field
      </a>
      <div class={`shell${panel.value && session ? " with-panel" : ""}${drawerOpen.value ? " drawer" : ""}`}>
        <Sidebar />
        <div class="veil" onClick={() => { drawerOpen.value = false; panel.value = ""; }} />
        {session ? <Main key={session.id} session={session} /> : <Welcome />}
        {session && <SidePanel session={session} />}
      </div>
      <Overlays />
      <PromptDialog />
      <Toasts />
      <div class="visually-hidden" aria-live="polite">
        {announcement.value}
      </div>
    </>
  );
}
