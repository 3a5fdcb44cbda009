/** The page of one agent, over the agentapi wire: no token, no sessions. Below `/chat/embed` without a header, for frames. */

import { render } from "preact";
import type { JSX } from "preact";
import { AgentComposer, nameFiles } from "./components/agent-composer";
import { AgentBadge, AgentPanes, ViewSwitch } from "./components/agent-panes";
import { droppedFiles } from "./components/file-drop";
import { Icon } from "./components/icons";
import { Mark, ThemeButton } from "./components/sidebar";
import { Toasts } from "./components/toasts";
import { Transcript } from "./components/item-list";
import { announcement } from "./state/app";
import { AgentapiAgent } from "./state/agentapi-agent";
import { agentName } from "./state/agent-session";
import { Agentapi, agentBase } from "./api/agentapi";
import { ROOT } from "./api/root";

const CONNECTIONS: Record<string, string> = {
  offline: "Not connected. It is tried again.",
  polling: "Connected by asking again and again: something holds streams back.",
};

function Page({ agent, isFramed }: { agent: AgentapiAgent; isFramed: boolean }): JSX.Element {
  const connection = CONNECTIONS[agent.connection.value];
  return (
    <>
      <main class="main" {...droppedFiles((files) => void nameFiles(agent, [...files]))}>
        <h1 class="visually-hidden">{agentName(agent.type.value)}</h1>
        <header class={isFramed ? "agent-bar" : "header"}>
          {!isFramed && <Mark />}
          <AgentBadge agent={agent} />
          <span class="spring" />
          <ViewSwitch agent={agent} />
          {!isFramed && <ThemeButton />}
        </header>
        <AgentPanes agent={agent}>
          <Transcript session={agent} empty={<p>No messages yet. Say something to begin.</p>} />
          <div class="dock">
            <div class="column">
              {agent.missing.value && <p class="notice error" role="alert">There is no agent at this address.</p>}
              {connection && <p class="notice calm" role="status">{connection}</p>}
              <AgentComposer agent={agent} />
            </div>
          </div>
        </AgentPanes>
        <div class="drop-sign" aria-hidden="true">
          <Icon name="attach" size={28} /> Drop the files here
        </div>
      </main>
      <Toasts />
      <div class="visually-hidden" aria-live="polite">
        {announcement.value}
      </div>
    </>
  );
}

export function startEmbedded(root: HTMLElement): void {
  const agent = new AgentapiAgent(new Agentapi(agentBase(ROOT, location.search)));
  const isFramed = /^embed(\/|$)/.test(location.pathname.slice(ROOT.pathname.length));
  render(<Page agent={agent} isFramed={isFramed} />, root);
  agent.open();
}
