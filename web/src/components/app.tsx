/** The page: the list of sessions, the current one, dialogs and toasts. */

import { effect, signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { access, announcement, canAct, drawerOpen, logOut, me, overlay, panel, refresh } from "../state/app";
import { attach } from "../state/attachments";
import { OpenSession, current, isDriven } from "../state/open-session";
import { sessionId } from "../state/route";
import { questions, sessions } from "../state/session-list";
import { PromptDialog } from "./dialog";
import { Toasts } from "./dialog";
import { Dock } from "./dock";
import { Widgets } from "./extension-ui";
import { fileDropProps } from "./file-drop";
import { Header, MenuButton, titleOf } from "./header";
import { Icon } from "./icons";
import { ItemList } from "./item-list";
import { Login } from "./login";
import { NoModel } from "./no-model";
import { Overlays } from "./overlays";
import { SidePanel } from "./side-panel";
import { Mark, Sidebar } from "./sidebar";

/** Opens the session in the address. */
export function openCurrentSession(): void {
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
    const count = questions.value.length;
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
        <p>{sessions.value.length ? "Choose a session, or start a new one." : "Start a session and describe the task."}</p>
        <button type="button" class="primary" disabled={!canAct()} onClick={() => { overlay.value = "new"; }}>
          New session
        </button>
        <button type="button" class="quiet" onClick={() => { overlay.value = "usage"; }}>
          Usage of all sessions
        </button>
        <button type="button" class="quiet" onClick={() => void logOut()}>
          Log out
        </button>
        <NoModel cwd="" />
        <p class="small-print">
          <kbd>Ctrl</kbd> <kbd>K</kbd> for commands, <kbd>?</kbd> for shortcuts · version {me.value?.version}
        </p>
      </div>
    </div>
  );
}

function EmptySession({ cwd }: { cwd: string }): JSX.Element {
  return (
    <>
      <h2>What should I do?</h2>
      <p>
        Working directory: <code>{cwd}</code>
      </p>
    </>
  );
}

type AgentMain = typeof import("./agent-main").AgentMain;
const agentMain = signal<AgentMain | null>(null);

/** A session of another vendor's agent; its components are loaded with the first one. */
function Driven({ session }: { session: OpenSession }): JSX.Element {
  useEffect(() => {
    if (!agentMain.value) void import("./agent-main").then((loaded) => { agentMain.value = loaded.AgentMain; });
  }, []);
  const Loaded = agentMain.value;
  return Loaded ? <Loaded session={session} /> : <main class="main" />;
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
          <h1>Session not found</h1>
          <p>It may have been deleted.</p>
        </div>
      </div>
    );
  }
  if (isDriven(session)) return <Driven session={session} />;
  return (
    <main class="main" {...fileDropProps(attach)}>
      <Header session={session} />
      <Widgets session={session} place="header" />
      <ItemList key={session.id} session={session} empty={<EmptySession cwd={session.view.value.cwd} />} />
      <Dock session={session} />
      <div class="drop-sign" aria-hidden="true">
        <Icon name="attach" size={28} /> Drop to attach
      </div>
    </main>
  );
}

export function App(): JSX.Element {
  const session = current.value;
  useEffect(() => {
    document.body.classList.toggle("drawer-open", drawerOpen.value);
  }, [drawerOpen.value]);
  if (access.value === "login") return <Login onLogin={refresh} />;
  if (access.value !== "granted") {
    return (
      <main class="login">
        <p role="status">{access.value === "offline" ? "The server cannot be reached. Retrying…" : ""}</p>
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
