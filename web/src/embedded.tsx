/** The page of an agentapi server's agent: no sessions, and a token only if the server requires one. `/chat/embed` has no header, for use in a frame. */

import { render } from "preact";
import type { JSX } from "preact";
import { Agentapi, agentBase } from "./api/agentapi";
import { ROOT } from "./api/client";
import { AgentComposer, uploadFiles } from "./components/agent-composer";
import { AgentBadge, AgentPanes, ViewSwitch } from "./components/agent-panes";
import { Toasts } from "./components/dialog";
import { fileDropProps } from "./components/file-drop";
import { Icon } from "./components/icons";
import { ItemList } from "./components/item-list";
import { Login } from "./components/login";
import { Mark, ThemeButton } from "./components/sidebar";
import { agentName } from "./state/agent-session";
import { AgentapiSession } from "./state/agentapi-session";
import { announcement, logInByLink } from "./state/app";

const CONNECTIONS: Record<string, string> = {
  offline: "Not connected. Retrying…",
  polling: "Connected by polling: the event stream is blocked.",
};

function Page({ agent, isFramed }: { agent: AgentapiSession; isFramed: boolean }): JSX.Element {
  if (agent.needsLogin.value) return <Login onLogin={() => { agent.needsLogin.value = false; agent.open(); }} />;
  const connection = CONNECTIONS[agent.connection.value];
  return (
    <>
      <main class="main" {...fileDropProps((files) => void uploadFiles(agent, [...files]))}>
        <h1 class="visually-hidden">{agentName(agent.type.value)}</h1>
        <header class={isFramed ? "agent-bar" : "header"}>
          {!isFramed && <Mark />}
          <AgentBadge agent={agent} />
          <span class="spring" />
          <ViewSwitch agent={agent} />
          {!isFramed && <ThemeButton />}
        </header>
        <AgentPanes agent={agent}>
          <ItemList session={agent} empty={<p>No messages yet. Send one to start.</p>} />
          <div class="dock">
            <div class="column">
              {agent.missing.value && <p class="notice error" role="alert">No agent found at this address.</p>}
              {connection && <p class="notice calm" role="status">{connection}</p>}
              <AgentComposer agent={agent} />
            </div>
          </div>
        </AgentPanes>
        <div class="drop-sign" aria-hidden="true">
          <Icon name="attach" size={28} /> Drop files here
        </div>
      </main>
      <Toasts />
      <div class="visually-hidden" aria-live="polite">
        {announcement.value}
      </div>
    </>
  );
}

export async function startEmbedded(root: HTMLElement): Promise<void> {
  await logInByLink();
  const agent = new AgentapiSession(new Agentapi(agentBase(ROOT, location.search)));
  const isFramed = /^embed(\/|$)/.test(location.pathname.slice(ROOT.pathname.length));
  render(<Page agent={agent} isFramed={isFramed} />, root);
  agent.open();
}
